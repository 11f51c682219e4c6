package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/config"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// What the dialog says a session gets is the configuration over what is built in.
func TestDefaultSpec(t *testing.T) {
	a := &App{o: Options{Config: config.Config{Sandbox: config.Sandbox{Network: "open", Resources: map[string]string{"memory": "4g"}}}}}
	want := sandbox.Spec{
		Wall: sandbox.WallNamespace, User: "host", Workdir: "/workspace", Network: sandbox.Network{Mode: sandbox.NetworkOpen},
		Resources: map[string]string{"memory": "4g", "shm": "1g", "pids": "512", "cpus": "2"},
	}
	if diff := cmp.Diff(want, a.defaultSpec(sandbox.WallNamespace)); diff != "" {
		t.Errorf("defaultSpec() (-want +got):\n%s", diff)
	}
}

func TestWithLine(t *testing.T) {
	for _, c := range []struct{ fix, command, want string }{
		{"install bubblewrap", "apt-get install bubblewrap", "install bubblewrap: apt-get install bubblewrap"},
		{"see the error", "", "see the error"},
	} {
		if got := withLine(c.fix, c.command); got != c.want {
			t.Errorf("withLine(%q, %q) = %q, want %q", c.fix, c.command, got, c.want)
		}
	}
}
