package aiotest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// openAPI holds the requests and answers against the API's specification.
type openAPI struct {
	doc   map[string]any
	paths map[*regexp.Regexp]map[string]any
}

func loadOpenAPI(t testing.TB, file string) *openAPI {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("AIO_OPENAPI: %v", err)
	}
	o := &openAPI{paths: map[*regexp.Regexp]map[string]any{}}
	if err := json.Unmarshal(text, &o.doc); err != nil {
		t.Fatalf("AIO_OPENAPI: %v", err)
	}
	paths, _ := o.doc["paths"].(map[string]any)
	for path, item := range paths {
		pattern := regexp.MustCompile("^" + regexp.MustCompile(`\\\{[^}]*\\\}`).ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$")
		o.paths[pattern], _ = item.(map[string]any)
	}
	if len(o.paths) == 0 {
		t.Fatalf("AIO_OPENAPI: %s has no paths", file)
	}
	return o
}

func (o *openAPI) operation(r *http.Request) map[string]any {
	for pattern, item := range o.paths {
		if pattern.MatchString(r.URL.Path) {
			op, _ := item[strings.ToLower(r.Method)].(map[string]any)
			return op
		}
	}
	return nil
}

// dig follows keys through maps.
func dig(v any, keys ...string) any {
	for _, k := range keys {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	return v
}

func (o *openAPI) request(t testing.TB, r *http.Request, body []byte) {
	schema := dig(o.operation(r), "requestBody", "content", "application/json", "schema")
	if schema == nil {
		return // not of the specification, or without a body
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return // a hostile test's
	}
	if err := o.check(schema, v, "request"); err != nil {
		t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	known, _ := dig(o.resolve(schema), "properties").(map[string]any)
	fields, _ := v.(map[string]any)
	for name := range fields {
		if _, ok := known[name]; !ok {
			t.Errorf("%s %s: the field %s is not of the API", r.Method, r.URL.Path, name)
		}
	}
}

func (o *openAPI) answer(t testing.TB, r *http.Request, a *recorder) {
	schema := dig(o.operation(r), "responses", "200", "content", "application/json", "schema")
	if schema == nil || a.status != http.StatusOK || !strings.HasPrefix(a.Header().Get("Content-Type"), "application/json") {
		return
	}
	var v any
	if err := json.Unmarshal(a.body.Bytes(), &v); err != nil {
		t.Errorf("%s %s: the answer: %v", r.Method, r.URL.Path, err)
		return
	}
	if dig(v, "success") == false && dig(v, "data") == nil {
		return // a fault without data, which the specification does not have
	}
	if err := o.check(schema, v, "answer"); err != nil {
		t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
}

func (o *openAPI) resolve(schema any) any {
	for {
		ref, ok := dig(schema, "$ref").(string)
		if !ok {
			return schema
		}
		schema = dig(o.doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
}

// check holds a value against the parts of a schema that the API uses.
func (o *openAPI) check(schema, v any, at string) error {
	schema = o.resolve(schema)
	for _, key := range []string{"anyOf", "oneOf"} {
		choices, ok := dig(schema, key).([]any)
		if !ok {
			continue
		}
		var last error
		for _, c := range choices {
			if last = o.check(c, v, at); last == nil {
				return nil
			}
		}
		return last
	}
	if values, ok := dig(schema, "enum").([]any); ok && !slices.Contains(values, v) {
		return fmt.Errorf("%s: %v is none of %v", at, v, values)
	}
	kind, _ := dig(schema, "type").(string)
	fits := true
	switch kind {
	case "string":
		_, fits = v.(string)
	case "integer", "number":
		_, fits = v.(float64)
	case "boolean":
		_, fits = v.(bool)
	case "null":
		fits = v == nil
	case "array":
		var items []any
		items, fits = v.([]any)
		for i, item := range items {
			if err := o.check(dig(schema, "items"), item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case "object":
		_, fits = v.(map[string]any)
	}
	if !fits {
		return fmt.Errorf("%s: %T is no %s", at, v, kind)
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	required, _ := dig(schema, "required").([]any)
	for _, name := range required {
		if _, ok := fields[name.(string)]; !ok {
			return fmt.Errorf("%s: %v is missing", at, name)
		}
	}
	properties, _ := dig(schema, "properties").(map[string]any)
	for name, value := range fields {
		if p, ok := properties[name]; ok {
			if err := o.check(p, value, at+"."+name); err != nil {
				return err
			}
		}
	}
	return nil
}

// recorder keeps what is answered.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	r.body.Write(p)
	return r.ResponseWriter.Write(p)
}
