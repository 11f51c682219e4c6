// Package tsgen writes the TypeScript of the API's bodies from the Go structs
// that encode them, so that the two never differ. [Generate] reads the structs
// by reflection and the values of string types from their source; types.go
// holds what the UI needs.
//
//	go generate ./backend/httpapi/internal/tsgen
package tsgen

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"reflect"
	"sort"
	"strconv"
	"strings"
)

const module = "github.com/glovebox-dev/glovebox/"

// generator collects the declarations that its roots lead to.
type generator struct {
	root  string                         // directory of go.mod
	decls map[string]string              // by TypeScript name
	owner map[string]reflect.Type        // who took a name
	enums map[string]map[string][]string // package path → type → values, in source order
}

// Generate returns the declarations of roots and of all that they lead to,
// sorted by name. root is the directory of go.mod: the constants of a string
// type are read from its package's source and become a union.
func Generate(root string, roots []reflect.Type) (string, error) {
	g := &generator{root, map[string]string{}, map[string]reflect.Type{}, map[string]map[string][]string{}}
	for _, t := range roots {
		if _, err := g.ref(t); err != nil {
			return "", err
		}
	}
	names := make([]string, 0, len(g.decls))
	for name := range g.decls {
		names = append(names, name)
	}
	sort.Strings(names)
	var b strings.Builder
	for _, name := range names {
		b.WriteString(g.decls[name])
	}
	return b.String(), nil
}

// ref returns the TypeScript that names t, and declares t when it has a name.
// encoding/json writes nil slices, maps and pointers as null: the types say so.
func (g *generator) ref(t reflect.Type) (string, error) {
	switch t.String() {
	case "time.Time":
		return "string", nil
	case "time.Duration":
		return "number", nil
	case "json.RawMessage":
		return "unknown", nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean", nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return "number", nil
	case reflect.Interface:
		return "unknown", nil
	case reflect.String:
		if t.PkgPath() == "" {
			return "string", nil
		}
		return g.named(t, g.stringType)
	case reflect.Struct:
		return g.named(t, g.structType)
	case reflect.Pointer:
		inner, err := g.ref(t.Elem())
		return inner + " | null", err
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "string | null", nil // base64
		}
		inner, err := g.ref(t.Elem())
		if strings.Contains(inner, " ") {
			inner = "(" + inner + ")"
		}
		return inner + "[] | null", err
	case reflect.Map:
		inner, err := g.ref(t.Elem())
		return "Record<string, " + inner + "> | null", err
	}
	return "", fmt.Errorf("%s has no form in TypeScript", t)
}

// nameOf is what a type is called in TypeScript, where there is one room for all
// names: those of the browser's packages, which are named to be read with their
// package, begin with it there.
func nameOf(t reflect.Type) string {
	pkg := strings.TrimPrefix(t.PkgPath(), module)
	if !strings.HasPrefix(pkg+"/", "backend/browser/") {
		return t.Name()
	}
	base := path.Base(pkg)
	return strings.ToUpper(base[:1]) + base[1:] + t.Name()
}

func (g *generator) named(t reflect.Type, declare func(reflect.Type) (string, error)) (string, error) {
	name := nameOf(t)
	if o, taken := g.owner[name]; taken {
		if o != t {
			return "", fmt.Errorf("%s and %s have the same name", o, t)
		}
		return name, nil
	}
	g.owner[name] = t // before its fields, which may lead back to it
	body, err := declare(t)
	if err != nil {
		return "", fmt.Errorf("%s: %w", t, err)
	}
	g.decls[name] = body
	return name, nil
}

func (g *generator) stringType(t reflect.Type) (string, error) {
	values, err := g.values(t)
	if err != nil {
		return "", err
	}
	if len(values) == 0 {
		return fmt.Sprintf("export type %s = string;\n\n", nameOf(t)), nil
	}
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = strconv.Quote(v)
	}
	return fmt.Sprintf("export type %s =\n  | %s;\n\n", nameOf(t), strings.Join(quoted, "\n  | ")), nil
}

func (g *generator) structType(t reflect.Type) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "export interface %s {\n", nameOf(t))
	err := g.fields(&b, t)
	b.WriteString("}\n\n")
	return b.String(), err
}

func (g *generator) fields(b *strings.Builder, t reflect.Type) error {
	for f := range fieldsOf(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if f.Anonymous && name == "" {
			if err := g.fields(b, f.Type); err != nil {
				return err
			}
			continue
		}
		if name == "" {
			return fmt.Errorf("field %s has no json name", f.Name)
		}
		ts, err := g.ref(f.Type)
		if err != nil {
			return err
		}
		mark := ""
		if strings.Contains(options, "omit") {
			mark, ts = "?", strings.TrimSuffix(ts, " | null")
		}
		fmt.Fprintf(b, "  %s%s: %s;\n", name, mark, ts)
	}
	return nil
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if f := t.Field(i); (f.IsExported() || f.Anonymous) && !yield(f) {
				return
			}
		}
	}
}

// values returns the constants of a string type as its package declares them.
func (g *generator) values(t reflect.Type) ([]string, error) {
	pkg := t.PkgPath()
	if g.enums[pkg] == nil {
		dir := filepath.Join(g.root, filepath.FromSlash(strings.TrimPrefix(pkg, module)))
		enums, err := parseEnums(dir)
		if err != nil {
			return nil, err
		}
		g.enums[pkg] = enums
	}
	return g.enums[pkg][t.Name()], nil
}

func parseEnums(dir string) (map[string][]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go")) // sorted
	if err != nil {
		return nil, err
	}
	enums := map[string][]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("read the constants of %s: %w", dir, err)
		}
		collectEnums(file, enums)
	}
	return enums, nil
}

func collectEnums(file *ast.File, enums map[string][]string) {
	for _, decl := range file.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			typ, ok := v.Type.(*ast.Ident)
			if !ok {
				continue
			}
			for _, value := range v.Values {
				if lit, ok := value.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if s, err := strconv.Unquote(lit.Value); err == nil {
						enums[typ.Name] = append(enums[typ.Name], s)
					}
				}
			}
		}
	}
}
