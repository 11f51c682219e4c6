package sandbox_test

import (
	"errors"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func TestParseAllow(t *testing.T) {
	for text, want := range map[string]string{
		"registry.corp":      "registry.corp",
		"Registry.Corp.:443": "registry.corp:443",
		"*.corp:8080":        "*.corp:8080",
		"10.1.2.3":           "10.1.2.3",
		"10.1.2.3:5432":      "10.1.2.3:5432",
		"10.1.2.3/16":        "10.1.0.0/16",
		"10.1.0.0/16:22":     "10.1.0.0/16:22",
		"fd00::1":            "fd00::1",
		"[fd00::1]:80":       "[fd00::1]:80",
		"fd00::/8":           "fd00::/8",
		"[fd00::/8]:80":      "[fd00::/8]:80",
		"::ffff:10.0.0.1":    "10.0.0.1",
		"localhost:5432":     "localhost:5432",
	} {
		a, err := sandbox.ParseAllow(text)
		if err != nil {
			t.Errorf("ParseAllow(%q): %v", text, err)
			continue
		}
		if got := a.String(); got != want {
			t.Errorf("ParseAllow(%q) = %s, want %s", text, got, want)
		}
		again, err := sandbox.ParseAllow(a.String())
		if err != nil || again != a {
			t.Errorf("ParseAllow(%q) is %v, %v; want what it was printed from", a, again, err)
		}
	}
	for _, text := range []string{
		"", "*", ":80", "host:", "host:0", "host:65536", "host:http", "http://host", "host/path", "a b", "*.*.corp",
		"a..b", "[fd00::1", "[fd00::1]80", "fe80::1%eth0", "-1.2.3.4/99", "user@host", "0.0.0.0", "0.0.0.0:80", "[::]:80", "::ffff:0.0.0.0", "::ffff:10.0.0.0/104",
	} {
		if a, err := sandbox.ParseAllow(text); err == nil {
			t.Errorf("ParseAllow(%q) = %v, want an error", text, a)
		}
	}
}

func FuzzParseAllow(f *testing.F) {
	for _, s := range []string{"a.b:1", "*.a", "[::1]:80", "10.0.0.0/8", "::ffff:1.2.3.4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := sandbox.ParseAllow(text)
		if err != nil {
			return
		}
		if again, err := sandbox.ParseAllow(a.String()); err != nil || again != a {
			t.Fatalf("%q is %v, which reads as %v, %v", text, a, again, err)
		}
	})
}

func TestSpecNetwork(t *testing.T) {
	for _, test := range []struct {
		name  string
		spec  sandbox.Spec
		mode  sandbox.NetworkMode
		fault string
	}{
		{"nothing named", sandbox.Spec{}, sandbox.NetworkProxy, ""},
		{"on the host itself", sandbox.Spec{Wall: sandbox.WallLocal}, sandbox.NetworkOpen, ""},
		{"on another's machine", sandbox.Spec{Wall: sandbox.WallRemote}, sandbox.NetworkOpen, ""},
		{"none", sandbox.Spec{Network: sandbox.Network{Mode: "none"}}, sandbox.NetworkNone, ""},
		{"allowed by the default mode", sandbox.Spec{Network: sandbox.Network{Allow: []string{"db:5432"}}}, sandbox.NetworkProxy, ""},
		{"unknown mode", sandbox.Spec{Network: sandbox.Network{Mode: "bridge"}}, "bridge", "network.mode"},
		{"allowed without a proxy", sandbox.Spec{Network: sandbox.Network{Mode: "none", Allow: []string{"db"}}}, "none", "network.allow"},
		{"allowed on the host itself", sandbox.Spec{Wall: sandbox.WallLocal, Network: sandbox.Network{Allow: []string{"db"}}}, "open", "network.allow"},
		{"not a host", sandbox.Spec{Network: sandbox.Network{Allow: []string{"db", "http://x"}}}, "proxy", "network.allow[1]"},
		{"a proxy on the host itself", sandbox.Spec{Wall: sandbox.WallLocal, Network: sandbox.Network{Mode: "proxy"}}, "proxy", "network.mode"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.spec.NetworkOrDefault(); got != test.mode {
				t.Errorf("NetworkOrDefault() = %s, want %s", got, test.mode)
			}
			var field *sandbox.FieldError
			got := ""
			if errors.As(test.spec.Validate(), &field) {
				got = field.Field
			}
			if got != test.fault {
				t.Errorf("Validate() faults %q, want %q", got, test.fault)
			}
		})
	}
}
