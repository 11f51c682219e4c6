package session_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/session"
)

// One shared sandbox for every session under ~/work, with a token that is minted
// for each command. It is given to app.Options.Host.
func ExampleHostConfig() {
	mint := func() string { return "t0k3n" }
	host := session.HostConfig{
		ExecEnv: &sandbox.RemoteConfig{BaseURL: "http://127.0.0.1:8080", APIKeyEnv: "SANDBOX_API_KEY"},
		SandboxExecPreamble: func(context.Context, sandbox.Ref, []string) (string, error) {
			return "export TOKEN=" + mint() + " && ", nil
		},
		SandboxPolicy: func(_, workspaceDir string) bool {
			return workspaceDir == "" || strings.HasPrefix(workspaceDir, "/home/me/work/")
		},
	}
	prefix, _ := host.SandboxExecPreamble(context.Background(), "http://127.0.0.1:8080", []string{"make"})
	fmt.Println(prefix, host.SandboxPolicy("s-1", "/etc"))
	// Output: export TOKEN=t0k3n &&  false
}
