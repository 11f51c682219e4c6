package chromium

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMessage_with(t *testing.T) {
	for _, c := range []struct{ in, id, session, want string }{
		{`{"id":1,"method":"A.b"}`, "7", "S", `{"id":7,"method":"A.b","sessionId":"S"}`},
		{`{"id":1,"method":"A.b","sessionId":"X","params":{"id":2,"sessionId":"Y"}}`, "7", "", `{"id":7,"method":"A.b","params":{"id":2,"sessionId":"Y"}}`},
		{` { "id" : 1 , "result" : [ "}" , "\"," , "\\" ] , "sessionId":"S" } ` + "\n", "2", "", `{"id":2,"result" : [ "}" , "\"," , "\\" ]}`},
		{`{"method":"A.b","params":{},"sessionId":"S"}`, "", "", `{"method":"A.b","params":{}}`},
		{`{"id":1}`, "", "", `{}`},
		{`{}`, "3", "S", `{"id":3,"sessionId":"S"}`},
	} {
		m, err := parse([]byte(c.in))
		if err != nil {
			t.Errorf("parse(%s): %v", c.in, err)
			continue
		}
		var id []byte
		if c.id != "" {
			id = []byte(c.id)
		}
		if got := string(m.with(id, c.session)); got != c.want {
			t.Errorf("parse(%s).with(%s, %s) = %s, want %s", c.in, c.id, c.session, got, c.want)
		}
	}
}

func TestParse_refuses(t *testing.T) {
	for _, in := range []string{
		"", "1", "[]", `"x"`, "{", `{"id"`, `{"id":`, `{"id":1`, `{"id":1,}`, `{"id":1}x`, `{"a":"b}`, `{"a":[}`, `{id:1}`,
		`{"id":1,"id":2}`, `{"sessionId":"a","sessionId":"b"}`, `{"sessionId":3}`, `{"sessionId":"a\u0041"}`, `{"method":null}`,
		`{"id":1,"session\u0049d":"a"}`, `{"id":1,"m\u0065thod":"A.b"}`,
	} {
		if m, err := parse([]byte(in)); err == nil {
			t.Errorf("parse(%q) = %+v", in, m)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"id":1,"method":"A.b","params":{"a":["\"",{}]},"sessionId":"S"}`))
	f.Add([]byte(`{"id":-1e9,"result":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parse(text)
		if err != nil || !json.Valid(text) {
			return // what lies between the borders is not looked at
		}
		// Put together as it was, it means the same.
		var want, got map[string]json.RawMessage
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatalf("%q is no object: %v", text, err)
		}
		again := m.with(m.id, m.session)
		if err := json.Unmarshal(again, &got); err != nil {
			t.Fatalf("%q became %q: %v", text, again, err)
		}
		if want["sessionId"] != nil && m.session == "" {
			delete(want, "sessionId") // an empty one is none
		}
		if diff := cmp.Diff(compact(t, want), compact(t, got)); diff != "" {
			t.Fatalf("%q became %q:\n%s", text, again, diff)
		}
	})
}

func compact(t *testing.T, m map[string]json.RawMessage) string {
	t.Helper()
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
