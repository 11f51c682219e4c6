package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/glovebox-dev/glovebox"

// layers are the packages from the top down. An import points to a lower layer
// and never up or sideways; docs/architecture.md says what each is for.
var layers = [][]string{
	{"."},
	{"app"},
	{"bench"},
	{"backend/httpapi"},
	{"backend/session"},
	{"backend/agent"},
	{"backend/tools", "backend/browser/pane", "backend/browser/toolserver", "backend/browser/recording"},
	{"backend/lifetime", "backend/execenv/local", "backend/execenv/container", "backend/execenv/aio", "backend/sandbox/docker", "backend/sandbox/namespace", "backend/sandbox/remote", "backend/egress", "backend/browser", "backend/browser/relay", "backend/store", "backend/llm/script", "backend/llm/anthropic", "backend/llm/openai"},
	{"backend/guest/cmd/glovebox-guest"},
	{"backend/guest", "backend/guest/client", "backend/guest/embedded"},
	{"backend/guest/process", "backend/guest/journal", "backend/guest/chromium", "backend/files", "backend/sandbox/mountcheck"},
	{"backend/wire", "backend/capture", "backend/terminal", "backend/browser/tabs"},
	{"backend/execenv", "backend/task", "backend/stream", "backend/llm/remote", "backend/browser/devtools", "backend/browser/control"},
	{"backend/sandbox", "backend/llm", "backend/config", "frontend"},
}

// sideways lists the imports within a layer that are meant: vocabulary that
// another word of the vocabulary needs.
var sideways = map[string]string{
	"backend/task":   "backend/execenv", // a call's place and its kill report are part of the log
	"backend/config": "backend/sandbox", // a configuration holds a spec
}

// only names the packages that alone, with those below them, may import a module.
var only = map[string][]string{
	"github.com/docker/docker":                  {"backend/sandbox/docker"},
	"modernc.org/sqlite":                        {"backend/store"},
	"github.com/anthropics/anthropic-sdk-go/v2": {"backend/llm/anthropic"},
	"github.com/openai/openai-go/v3":            {"backend/llm/openai"},
	"github.com/chromedp/cdproto":               {"backend/browser", "bench"}, // the floor of its measures is a client without anything
	"github.com/modelcontextprotocol/go-sdk":    {"backend/browser/toolserver"},
	"github.com/spf13/cobra":                    {"app"},
	"github.com/wailsapp/wails/v2":              {"app"},
}

// apart are suites and generators: they serve tests, and may import what they test.
var apart = []string{"backend/execenv/envtest", "backend/execenv/aio/aiotest", "backend/sandbox/providertest", "backend/sandbox/registrytest", "backend/llm/llmtest", "backend/browser/browsertest", "backend/httpapi/internal", "build/lazylink"}

type listed struct {
	ImportPath string
	Imports    []string
	GoFiles    []string
}

func TestImportsPointDown(t *testing.T) {
	layer := map[string]int{}
	for i, packages := range layers {
		for _, p := range packages {
			layer[p] = i
		}
	}
	for _, p := range list(t) {
		name := relative(p.ImportPath)
		if isApart(name) {
			continue
		}
		from, ok := layer[name]
		if !ok {
			t.Errorf("%s is in no layer; give it one here and in docs/architecture.md", name)
			continue
		}
		for _, imported := range p.Imports {
			for mod, owners := range only {
				if (imported == mod || strings.HasPrefix(imported, mod+"/")) && !slices.ContainsFunc(owners, func(owner string) bool {
					return name == owner || strings.HasPrefix(name, owner+"/")
				}) {
					t.Errorf("%s imports %s, which is for %s alone", name, imported, strings.Join(owners, " and "))
				}
			}
			if !strings.HasPrefix(imported, module) {
				continue
			}
			to := relative(imported)
			if isApart(to) {
				t.Errorf("%s imports the test suite %s", name, to)
			}
			if layer[to] <= from && sideways[name] != to {
				t.Errorf("%s (layer %d) imports %s (layer %d): imports point down", name, from+1, to, layer[to]+1)
			}
		}
	}
}

// TestNamesSaySomething refuses packages that are a drawer for the rest.
func TestNamesSaySomething(t *testing.T) {
	for _, p := range list(t) {
		switch path.Base(p.ImportPath) {
		case "util", "utils", "common", "helpers", "types", "models", "base", "misc", "shared", "lib":
			t.Errorf("%s: a package is named after the one thing it holds", p.ImportPath)
		}
	}
}

func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,GoFiles", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) > 0 {
			all = append(all, p)
		}
	}
	if len(all) < 10 {
		t.Fatalf("go list found %d packages; the test looks at nothing", len(all))
	}
	return all
}

func relative(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

func isApart(name string) bool {
	for _, a := range apart {
		if name == a || strings.HasPrefix(name, a+"/") {
			return true
		}
	}
	return false
}
