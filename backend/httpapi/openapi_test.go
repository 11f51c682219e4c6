package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
)

// Every route is described, with the bodies that its handler takes and gives.
func TestOpenAPI_describesEveryRoute(t *testing.T) {
	asked := 0
	port := serve(t, &asked)
	resp := attempt{path: "/api/v1/openapi.json", token: testToken}.send(t, port)
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			Summary     string
			Parameters  []struct{ Name string }
			RequestBody *struct {
				Content map[string]struct{ Schema map[string]any }
			}
			Responses map[string]struct {
				Content map[string]struct{ Schema map[string]any }
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil || !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Fatalf("openapi %q, %v", doc.OpenAPI, err)
	}
	routes := New(Options{Token: NewToken("t")}).table()
	for _, r := range routes {
		op, ok := doc.Paths[r.path][strings.ToLower(r.method)]
		if !ok || op.Summary == "" {
			t.Errorf("%s %s is not described", r.method, r.path)
			continue
		}
		want := strings.Count(r.path, "{")
		if r.method != "GET" {
			want++ // its key
		}
		if got := len(op.Parameters); got != want {
			t.Errorf("%s has %d parameters, want %d", r.path, got, want)
		}
		if (op.RequestBody != nil) != (r.in != nil && r.method != "GET") {
			t.Errorf("%s %s: body described: %v", r.method, r.path, op.RequestBody != nil)
		}
		if _, ok := op.Responses["default"]; !ok {
			t.Errorf("%s %s says nothing of errors", r.method, r.path)
		}
	}
	open := doc.Paths["/sessions"]["post"].RequestBody.Content["application/json"].Schema["properties"].(map[string]any)
	for _, field := range []string{"goal", "workspace", "spec", "model", "approvals"} {
		if open[field] == nil {
			t.Errorf("the body of POST /sessions has no %s", field)
		}
	}
	at := doc.Paths["/sessions/{id}"]["get"].Responses["200"].Content["application/json"].Schema["properties"].(map[string]any)["created_at"]
	if text, _ := json.Marshal(at); !strings.Contains(string(text), "date-time") {
		t.Errorf("created_at is %s, want a date-time", text)
	}
}
