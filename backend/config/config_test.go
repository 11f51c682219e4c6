package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	got, err := Load(write(t, "model = \"demo\"\n[sandbox]\nwall = \"docker\"\nnetwork = \"open\"\n[sandbox.resources]\nmemory = \"1g\"\n"), true)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Model: "demo", Sandbox: Sandbox{Wall: "docker", Network: "open", Resources: map[string]string{"memory": "1g"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load() (-want +got)\n%s", diff)
	}
}

func TestLoad_refusesWhatItDoesNotKnow(t *testing.T) {
	for _, c := range []struct{ name, text, field string }{
		{"unknown key", "modle = \"demo\"\n", "modle"},
		{"unknown nested key", "[sandbox]\nimagine = \"x\"\n", "sandbox.imagine"},
		{"wall", "[sandbox]\nwall = \"moat\"\n", "sandbox.wall"},
		{"network", "[sandbox]\nnetwork = \"proxy\"\n", "sandbox.network"},
		{"resource", "[sandbox.resources]\nmemory = \"2 gigs\"\n", "sandbox.resources.memory"},
		{"on_quit", "on_quit = \"explode\"\n", "on_quit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(write(t, c.text), true)
			var field *sandbox.FieldError
			if !errors.As(err, &field) || field.Field != c.field {
				t.Errorf("Load() = %v, want a fault of %s", err, c.field)
			}
		})
	}
}

func TestLoad_missing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.toml")
	if _, err := Load(path, false); err != nil {
		t.Errorf("a default file that is not there: %v", err)
	}
	if _, err := Load(path, true); err == nil {
		t.Error("a named file that is not there was accepted")
	}
	if _, err := Load(write(t, "model = \n"), true); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("Load() = %v, want the line of the mistake", err)
	}
}
