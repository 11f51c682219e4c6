package docker

import (
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// What is said to do fits what is in the way: what was named is changed where it
// was named, an engine that hangs is restarted, and one is installed only where
// nobody named any and none is there.
func TestRemedy(t *testing.T) {
	dir := t.TempDir()
	slow := hangingEngine(t)
	for _, c := range []struct {
		name, setting, env string
		says               []string
	}{
		{"a directory", "", "unix://" + dir, []string{"no socket", "change or unset DOCKER_HOST"}},
		{"nothing there", "unix://" + dir + "/none.sock", "", []string{"start it", "change host in [docker] of the configuration"}},
		{"nothing listens", "tcp://127.0.0.1:1", "", []string{"check the address", "change host in [docker]"}},
		{"it hangs", "", slow, []string{"hangs", "systemctl restart docker", "DOCKER_HOST"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("DOCKER_HOST", c.env)
			p := stubProvider(t, c.setting)
			_, err := p.Ping(t.Context())
			if !errors.Is(err, sandbox.ErrUnreachable) {
				t.Fatalf("Ping = %v", err)
			}
			remedy, missing := p.Remedy(err)
			for _, want := range c.says {
				if !strings.Contains(remedy, want) || missing {
					t.Errorf("Remedy(%v) = %q, missing %v, want %q in it", err, remedy, missing, want)
				}
			}
			if c.setting != "" && strings.Contains(err.Error(), "DOCKER_HOST") {
				t.Errorf("Ping = %v, though a setting names the engine", err)
			}
			wall := p.Probe(t.Context())
			if !errors.Is(wall, sandbox.ErrNoWall) || !strings.HasPrefix(wall.Error(), "the docker wall is not available") || strings.Contains(wall.Error(), "install") {
				t.Errorf("Probe = %v", wall)
			}
		})
	}
	t.Run("nobody named one", func(t *testing.T) {
		p := stubProvider(t, "unix://"+dir+"/none.sock")
		_, err := p.Ping(t.Context())
		p.endpoint.why = "the default socket"
		if remedy, missing := p.Remedy(err); !missing || remedy != Install {
			t.Errorf("Remedy = %q, missing %v", remedy, missing)
		}
	})
	t.Run("another version is asked for", func(t *testing.T) {
		p := stubProvider(t, "")
		if remedy, missing := p.Remedy(errors.New("DOCKER_API_VERSION asks for API 1.99")); missing || !strings.Contains(remedy, "the message") {
			t.Errorf("Remedy = %q, missing %v", remedy, missing)
		}
	})
}
