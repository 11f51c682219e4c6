package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	got, err := Load(write(t, "model = \"demo\"\n[sandbox]\nwall = \"docker\"\nnetwork = \"proxy\"\nallow = [\"db.corp:5432\"]\n[sandbox.resources]\nmemory = \"1g\"\n"), true)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Model: "demo", Sandbox: Sandbox{Wall: "docker", Network: "proxy", Allow: []string{"db.corp:5432"}, Resources: map[string]string{"memory": "1g"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load() (-want +got)\n%s", diff)
	}
}

func TestLoad_refusesWhatItDoesNotKnow(t *testing.T) {
	for _, c := range []struct{ name, text, field string }{
		{"unknown key", "modle = \"demo\"\n", "modle"},
		{"unknown nested key", "[sandbox]\nimagine = \"x\"\n", "sandbox.imagine"},
		{"wall", "[sandbox]\nwall = \"moat\"\n", "sandbox.wall"},
		{"network", "[sandbox]\nnetwork = \"bridge\"\n", "sandbox.network"},
		{"allow", "[sandbox]\nallow = [\"db.corp:5432\", \"http://db.corp\"]\n", "sandbox.allow[1]"},
		{"allow without a proxy", "[sandbox]\nnetwork = \"none\"\nallow = [\"db.corp\"]\n", "sandbox.allow"},
		{"resource", "[sandbox.resources]\nmemory = \"2 gigs\"\n", "sandbox.resources.memory"},
		{"model without a vendor", "[[models]]\nname = \"gpt\"\n", "models[0].name"},
		{"model twice", "[[models]]\nname = \"openai:a\"\n[[models]]\nname = \"openai:a\"\n", "models[1].name"},
		{"base_url", "[[models]]\nname = \"openai:a\"\n[[models]]\nname = \"openai:b\"\nbase_url = \"localhost:1\"\nkey_env = \"\"\n", "models[1].base_url"},
		{"key in a base_url", "[openai]\nbase_url = \"https://me:sk-1@host/v1\"\n", "openai.base_url"},
		{"base_url without key_env", "[[models]]\nname = \"openai:a\"\nbase_url = \"http://localhost:1/v1\"\n", "models[0].key_env"},
		{"key in key_env", "[[models]]\nname = \"openai:a\"\nkey_env = \"sk-secret-1\"\n", "models[0].key_env"},
		{"key of a vendor", "[anthropic]\napi_key = \"sk-secret-1\"\n", "anthropic.api_key"},
		{"key of a model", "[[models]]\nname = \"openai:a\"\nkey = \"sk-secret-1\"\n", "models.key"},
		{"max_tokens", "[[models]]\nname = \"openai:a\"\nmax_tokens = -1\n", "models[0].max_tokens"},
		{"price", "[[models]]\nname = \"openai:a\"\nprice = {input = nan}\n", "models[0].price"},
		{"word of thinking", "[[models]]\nname = \"anthropic:a\"\nthinking = \"hard\"\n", "models.thinking"},
		{"little thinking", "[[models]]\nname = \"anthropic:a\"\nthinking = 1000\n", "models.thinking"},
		{"thinking beyond the answer", "[[models]]\nname = \"anthropic:a\"\nthinking = 32000\n", "models[0].thinking"},
		{"thinking of openai", "[[models]]\nname = \"openai:a\"\nthinking = \"off\"\n", "models[0].thinking"},
		{"on_quit", "on_quit = \"explode\"\n", "on_quit"},
		{"recording", "[browser]\nrecord = \"yes\"\n", "browser.record"},
		{"limit of a recording", "[browser]\nrecord_limit = \"100k\"\n", "browser.record_limit"},
		{"limit that is none", "[browser]\nrecord_limit = \"much\"\n", "browser.record_limit"},
		{"idle stop", "[sandbox]\nidle_stop = \"soon\"\n", "sandbox.idle_stop"},
		{"idle stop in the past", "[sandbox]\nidle_stop = \"-1h\"\n", "sandbox.idle_stop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(write(t, c.text), true)
			var field *sandbox.FieldError
			if !errors.As(err, &field) || field.Field != c.field {
				t.Errorf("Load() = %v, want a fault of %s", err, c.field)
			}
			if err != nil && strings.Contains(err.Error(), "sk-") {
				t.Errorf("the fault repeats a key: %v", err)
			}
			if strings.HasPrefix(c.name, "key") && !strings.Contains(err.Error(), "key_env") {
				t.Errorf("Load() = %v, which does not say how a key is named", err)
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

func TestLoad_models(t *testing.T) {
	got, err := Load(write(t, `
[anthropic]
base_url = "https://proxy.test"
[[models]]
name = "openai:local"
label = "Local"
base_url = "http://127.0.0.1:11434/v1"
key_env = ""
max_tokens = 4096
sees = false
price = { input = 1.5, output = 6, cache_read = 0.15, cache_write = 2 }
`), true)
	if err != nil {
		t.Fatal(err)
	}
	none, blind := "", false
	want := Config{
		Anthropic: Vendor{BaseURL: "https://proxy.test"},
		Models: []Model{{
			Name: "openai:local", Label: "Local", BaseURL: "http://127.0.0.1:11434/v1", KeyEnv: &none, MaxTokens: 4096, Sees: &blind,
			Price: &Price{Input: 1.5, Output: 6, CacheRead: 0.15, CacheWrite: 2},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load() (-want +got)\n%s", diff)
	}
}

func TestLoad_thinking(t *testing.T) {
	got, err := Load(write(t, `
[[models]]
name = "anthropic:a"
thinking = "off"
[[models]]
name = "anthropic:b"
thinking = "auto"
[[models]]
name = "anthropic:c"
max_tokens = 4096
thinking = 4095
[[models]]
name = "anthropic:d"
`), true)
	if err != nil {
		t.Fatal(err)
	}
	want := []Thinking{{Mode: "off"}, {Mode: "auto"}, {Mode: "budget", Budget: 4095}, {}}
	for i, m := range got.Models {
		if m.Thinking != want[i] {
			t.Errorf("%s thinks as %+v, want %+v", m.Name, m.Thinking, want[i])
		}
	}
}

func TestFromEnv(t *testing.T) {
	env := func(value string) func(string) string {
		return func(name string) string {
			if name == "OPENAI_BASE_URL" {
				return value
			}
			return ""
		}
	}
	var c Config
	if err := c.FromEnv(env(" http://127.0.0.1:1/v1\n")); err != nil || c.OpenAI.BaseURL != "http://127.0.0.1:1/v1" || c.Anthropic.BaseURL != "" {
		t.Errorf("FromEnv() = %v and %+v", err, c)
	}
	for _, value := range []string{"https://me:sk-secret-1@host/v1", "https://sk-secret-1@host/v1", "ftp://host/sk-secret-1", "sk-secret-1", "https://host/v1?key=sk-secret-1", "https://host/v1#sk-secret-1", "://sk-secret-1"} {
		var c Config
		err := c.FromEnv(env(value))
		var field *sandbox.FieldError
		if !errors.As(err, &field) || field.Field != "OPENAI_BASE_URL" || strings.Contains(err.Error(), "sk-") {
			t.Errorf("FromEnv() with %s = %v, want a fault that names the variable and not its value", value, err)
		}
		c.OpenAI.BaseURL = "http://of.the.file/v1"
		if err := c.FromEnv(env(value)); err != nil || c.OpenAI.BaseURL != "http://of.the.file/v1" {
			t.Errorf("a variable that is of no use: %v, %+v", err, c)
		}
	}
}

func TestLoad_host(t *testing.T) {
	load := func(text string) (Config, error) { return Load(write(t, text), true) }
	for text, field := range map[string]string{
		"[docker.path_map]\n\"work\" = \"/w\"":                 "docker.path_map",
		"[docker.path_map]\n\"/srv/\" = \"/w\"":                "docker.path_map",
		"[egress]\nupstream = \"https://h:1\"":                 "egress.upstream",
		"[egress]\nupstream = \"http://u:secret@h:1\"":         "egress.upstream",
		"[egress]\nupstream = \"http://h\"":                    "egress.upstream",
		"[exec_env]\nworkdir = \"/w\"":                         "exec_env.base_url",
		"[exec_env]\nbase_url = \"127.0.0.1:80\"":              "exec_env.base_url",
		"[exec_env]\nbase_url = \"http://u:secret@h\"":         "exec_env.base_url",
		"[exec_env]\nbase_url = \"http://h\"\nworkdir = \"w\"": "exec_env.workdir",
		"[sandbox]\nwall = \"remote\"":                         "sandbox.wall",
		"[sandbox]\npreamble = [\"mint\"]":                     "sandbox.preamble",
		"[sandbox]\npolicy = [\"work/**\"]":                    "sandbox.policy",
		"[sandbox]\npolicy = [\"/work/[\"]":                    "sandbox.policy",
	} {
		if _, err := load(text); !errors.Is(err, sandbox.ErrSpec) || !strings.Contains(err.Error(), field+": ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want a refusal of %s", text, err, field)
		}
	}
	const remote = "[exec_env]\nbase_url = \"http://h:1\"\n"
	for text, shared := range map[string]bool{
		"": false, remote: true, remote + "[sandbox]\nimage = \"x\"": false,
		remote + "[sandbox]\nwall = \"docker\"": false, remote + "[sandbox]\nwall = \"remote\"": true,
	} {
		if c, err := load(text); err != nil || c.Shared() != shared {
			t.Errorf("%q: shared %v, %v, want %v", text, c.Shared(), err, shared)
		}
	}
	c := Sandbox{Policy: []string{"/home/me/work/**", "/srv/a"}}
	for dir, want := range map[string]bool{"": true, "/home/me/work/x/y": true, "/srv/a": true, "/srv/ab": false, "/home/me": false} {
		if c.Sandboxed(dir) != want {
			t.Errorf("Sandboxed(%q) = %v", dir, !want)
		}
	}
}

func TestIdleAfter(t *testing.T) {
	for in, want := range map[string]time.Duration{"": time.Hour, "0": 0, "90m": 90 * time.Minute, "1s": time.Second} {
		c := Config{Sandbox: Sandbox{IdleStop: in}}
		if got := c.IdleAfter(); got != want {
			t.Errorf("IdleAfter(%q) = %v, want %v", in, got, want)
		}
	}
}

func TestBrowser(t *testing.T) {
	for text, want := range map[string]struct {
		records bool
		limit   int64
	}{
		"":                              {true, 64 << 20},
		"[browser]\nrecord = \"off\"\n": {false, 64 << 20},
		"[browser]\nrecord = \"on\"\nrecord_limit = \"1.5g\"\n": {true, 3 << 29},
	} {
		c, err := Load(write(t, text), true)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Browser; got.Records() != want.records || got.Limit() != want.limit {
			t.Errorf("%q: records %v, at most %d bytes; want %+v", text, got.Records(), got.Limit(), want)
		}
	}
}
