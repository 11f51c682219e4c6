package session_test

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/execenv/local"
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

// rooms is a provider that lends what a program has: a place for each root task.
type rooms struct{ dir string }

func (r rooms) Allocate(_ context.Context, rootTaskID string, spec sandbox.Spec) (sandbox.Handle, error) {
	for i, m := range spec.Mounts {
		if m.Kind == sandbox.PVC { // each provider judges what it is asked for
			return sandbox.Handle{}, &sandbox.FieldError{Field: fmt.Sprintf("mounts[%d].kind", i), Reason: "there are no claims here; choose nas"}
		}
	}
	return sandbox.Handle{BaseURL: "rooms://here", SandboxID: rootTaskID, Workdir: r.dir, Greet: func(context.Context) error { return nil }}, nil
}

func (r rooms) Attach(ctx context.Context, ref sandbox.Ref) (sandbox.Handle, error) {
	return r.Allocate(ctx, ref.ID(), sandbox.Spec{})
}

func (r rooms) Release(context.Context, string) error { return nil }

// A provider of the program's own, which goes before any shared sandbox, with the
// Env that knows how to work in what it hands out. A session is bound by the
// provider's address, so that the next process finds it again.
func ExampleHostConfig_provider() {
	host := session.HostConfig{
		ExecEnv:         &sandbox.RemoteConfig{BaseURL: "http://127.0.0.1:8080"}, // not looked at
		SandboxProvider: rooms{dir: "/tmp"},
		SandboxSpec:     sandbox.Spec{Mounts: []sandbox.Mount{{Source: "filer:/skills", Target: "/skills", Kind: sandbox.NAS, Mode: sandbox.ReadOnly}}},
		SandboxBackendFactory: func(h sandbox.Handle, _ execenv.Preamble) (execenv.Env, error) {
			return local.New(local.Options{Workspace: h.Workdir})
		},
	}
	ctx := context.Background()
	h, err := host.SandboxProvider.Allocate(ctx, "s-1", host.SandboxSpec)
	if err != nil {
		fmt.Println(err)
		return
	}
	ref, _ := h.Ref()
	env, err := host.SandboxBackendFactory(h, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer env.(io.Closer).Close() // as the server does when the sandbox is let go of
	outcome, err := env.Run(ctx, execenv.Command{Argv: []string{"pwd"}}, nil)
	fmt.Printf("%s %s%v\n", ref, outcome.Stdout.Head, err)
	_, err = host.SandboxProvider.Allocate(ctx, "s-2", sandbox.Spec{Mounts: []sandbox.Mount{{Source: "claim", Target: "/x", Kind: sandbox.PVC}}})
	fmt.Println(err)
	// Output:
	// rooms://here#s-1 /tmp
	// <nil>
	// mounts[0].kind: there are no claims here; choose nas
}

// reader is a browser of the program's own: one that only reads pages.
type reader struct{ browser.Backend }

func (reader) Navigate(_ context.Context, url string) (browser.Look, error) {
	return browser.Look{Text: "# " + url}, nil
}

// A browser of the program's own, in the place of the one in the sandbox: the agent's
// browser tools act on it, and nobody looks on. It is asked for once for each sandbox.
func ExampleHostConfig_browser() {
	host := session.HostConfig{SandboxBrowserFactory: func(h sandbox.Handle) (browser.Backend, error) {
		if h.Wire != sandbox.WireAIO {
			return nil, nil // that one has none
		}
		return reader{}, nil
	}}
	b, err := host.SandboxBrowserFactory(sandbox.Handle{BaseURL: "http://127.0.0.1:8080", Wire: sandbox.WireAIO})
	if err != nil {
		fmt.Println(err)
		return
	}
	look, err := b.Navigate(context.Background(), "https://example.com/")
	fmt.Println(look.Text, err)
	// Output: # https://example.com/ <nil>
}

// The policy sends a workspace to the host itself: the answer is asked for once,
// and recorded with the session.
func ExampleHostConfig_policy() {
	host := session.HostConfig{SandboxPolicy: func(_, workspaceDir string) bool {
		return !strings.HasPrefix(workspaceDir, "/srv/trusted/")
	}}
	fmt.Println(host.SandboxPolicy("s-1", "/srv/trusted/build"), host.SandboxPolicy("s-2", "/home/me/work"))
	// Output: false true
}
