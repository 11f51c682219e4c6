package httpapi

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// object is a piece of a JSON document.
type object = map[string]any

// openapi serves the API's description, made of the table of routes and of the
// Go structs of its bodies.
func (s *Server) openapi(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, s.document())
}

func (s *Server) document() object {
	paths := object{}
	for _, r := range s.table() {
		path, ok := paths[r.path].(object)
		if !ok {
			path = object{}
			paths[r.path] = path
		}
		path[strings.ToLower(r.method)] = r.operation()
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Glovebox", "version": s.o.Version,
			"description": "The API of one Glovebox server. A command answers 202 once it was recorded; what came of it shows in the events.",
		},
		"servers":    []any{object{"url": "/api/v1"}},
		"security":   []any{object{"token": []any{}}},
		"paths":      paths,
		"components": object{"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}}},
	}
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

func (r route) operation() object {
	op := object{"summary": r.does, "operationId": strings.ToLower(r.method) + pathParameter.ReplaceAllString(strings.ReplaceAll(r.path, "/", "_"), "by_$1")}
	var parameters []any
	for _, m := range pathParameter.FindAllStringSubmatch(r.path, -1) {
		parameters = append(parameters, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	if r.method != http.MethodGet {
		parameters = append(parameters, object{
			"name": keyHeader, "in": "header", "schema": object{"type": "string", "maxLength": maxKey},
			"description": "Names the command: sent again with the same key, it is not carried out again, and has the first one's answer.",
		})
	}
	if parameters != nil {
		op["parameters"] = parameters
	}
	if r.in != nil && r.method != http.MethodGet {
		op["requestBody"] = object{"content": content(r.in)}
	}
	status := "200"
	if r.method != http.MethodGet && reflect.TypeOf(r.out) != reflect.TypeFor[ToolResponse]() {
		status = "202"
	}
	answer := object{"description": r.does}
	if r.out != nil {
		answer["content"] = content(r.out)
	}
	op["responses"] = object{
		status:    answer,
		"default": object{"description": "An error, with what to do.", "content": content(ErrorResponse{})},
	}
	return op
}

func content(body any) object {
	return object{"application/json": object{"schema": schemaOf(reflect.TypeOf(body))}}
}

// schemas keeps the schema of each type: they do not change.
var schemas sync.Map // reflect.Type → *jsonschema.Schema

func schemaOf(t reflect.Type) *jsonschema.Schema {
	if s, ok := schemas.Load(t); ok {
		return s.(*jsonschema.Schema)
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
		reflect.TypeFor[time.Duration]():   {Type: "integer", Description: "nanoseconds"},
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64"},
	}})
	if err != nil {
		panic(err) // a body's type that JSON cannot hold; a test makes them all
	}
	schemas.Store(t, s)
	return s
}
