package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/app"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/execenv/aio/aiotest"
	"github.com/glovebox-dev/glovebox/backend/execenv/local"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/session"
)

// pool is a provider of a program's own: it hands out places that it keeps.
type pool struct {
	allocated, released []string
	mounts              []sandbox.Mount
}

func (p *pool) handle(id string) sandbox.Handle {
	return sandbox.Handle{BaseURL: "pool://here", SandboxID: id, ShortID: id, Workdir: os.TempDir(), Greet: func(context.Context) error { return nil }}
}

func (p *pool) Allocate(_ context.Context, root string, spec sandbox.Spec) (sandbox.Handle, error) {
	p.allocated = append(p.allocated, spec.Image)
	p.mounts = spec.Mounts
	return p.handle("p-" + root), nil
}

func (p *pool) Attach(_ context.Context, ref sandbox.Ref) (sandbox.Handle, error) {
	return p.handle(ref.ID()), nil
}

func (p *pool) Release(_ context.Context, root string) error {
	p.released = append(p.released, root)
	return nil
}

func (p *pool) Inspect(context.Context, sandbox.Ref) (sandbox.Condition, error) {
	return sandbox.Condition{Value: sandbox.StateReady, ObservedAt: time.Now(), Source: "server"}, nil
}

// serve runs an app with a HostConfig and returns what makes requests of it.
func serve(t *testing.T, host session.HostConfig) (call func(method, path string, body, answer any) error) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	a, err := app.New(t.Context(), app.Options{DataDir: data, Addr: "127.0.0.1:0", Host: host, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // the one result
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	token, err := os.ReadFile(filepath.Join(data, "token"))
	if err != nil {
		t.Fatal(err)
	}
	return func(method, path string, body, answer any) error {
		text, _ := json.Marshal(body) // of plain structs
		r, err := http.NewRequestWithContext(t.Context(), method, a.URL()+"/api/v1"+path, strings.NewReader(string(text)))
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode/100 != 2 {
			return fmt.Errorf("%s %s: %s", method, path, res.Status)
		}
		if answer == nil {
			return nil
		}
		return json.NewDecoder(res.Body).Decode(answer)
	}
}

// bash opens a session and runs a command in it.
func bash(t *testing.T, call func(method, path string, body, answer any) error, command string) (id, text, wall string) {
	t.Helper()
	var opened struct {
		ID string `json:"session_id"`
	}
	if err := call("POST", "/sessions", map[string]any{"title": "t"}, &opened); err != nil {
		t.Fatal(err)
	}
	var r struct {
		Text  string        `json:"text"`
		Where execenv.Where `json:"where"`
	}
	err := call("POST", "/sessions/"+opened.ID+"/tools", map[string]any{"tool": "Bash", "input": map[string]any{"command": command}}, &r)
	if err != nil {
		t.Fatal(err)
	}
	return opened.ID, r.Text, r.Where.Wall
}

// Mode B goes before mode A: a provider of the program's own, with a backend and
// a preamble of its own, each asked with what it is for.
func TestHostConfig_provider(t *testing.T) {
	places := &pool{}
	var refs []sandbox.Ref
	dir := t.TempDir()
	// Kinds that live elsewhere, and resources, are the provider's to judge.
	elsewhere := []sandbox.Mount{{Source: "server:/export", Target: "/nas", Kind: sandbox.NAS}, {Source: "claim-1", Target: "/pvc", Kind: sandbox.PVC, Mode: sandbox.ReadOnly}}
	call := serve(t, session.HostConfig{
		ExecEnv:         &sandbox.RemoteConfig{BaseURL: "http://127.0.0.1:1"}, // nobody is there, and nobody asks
		SandboxProvider: places,
		SandboxSpec:     sandbox.Spec{Image: "mine", Mounts: elsewhere, Resources: map[string]string{"gpu": "1"}},
		SandboxExecPreamble: func(_ context.Context, ref sandbox.Ref, _ []string) (string, error) {
			refs = append(refs, ref)
			return "export WHO=me && ", nil
		},
		SandboxBackendFactory: func(_ sandbox.Handle, p execenv.Preamble) (execenv.Env, error) {
			env, err := local.New(local.Options{Workspace: dir})
			return prepared{env, p}, err
		},
	})
	id, text, _ := bash(t, call, "echo $WHO")
	if text != "me" {
		t.Errorf("the command printed %q", text)
	}
	if len(places.allocated) != 1 || places.allocated[0] != "mine" || len(refs) != 1 || refs[0] != sandbox.Ref("pool://here#p-"+id) {
		t.Errorf("allocated %v, refs %v", places.allocated, refs)
	}
	if !slices.Equal(places.mounts, elsewhere) {
		t.Errorf("the provider got the mounts %v", places.mounts)
	}
	if err := call("POST", "/sessions/"+id+"/close", nil, nil); err != nil {
		t.Fatal(err)
	}
	if len(places.released) != 1 || places.released[0] != id {
		t.Errorf("released %v", places.released)
	}
}

// prepared is an Env that puts a preamble before its commands.
type prepared struct {
	*local.Env
	preamble execenv.Preamble
}

func (p prepared) Run(ctx context.Context, c execenv.Command, live func(execenv.Chunk)) (execenv.Outcome, error) {
	c, err := p.preamble.Prepare(ctx, c)
	if err != nil {
		return execenv.Outcome{}, err
	}
	return p.Env.Run(ctx, c, live)
}

// Mode A: one shared sandbox. The policy is asked once for each session, sends
// some to the host, and opens nothing when it panics.
func TestHostConfig_policy(t *testing.T) {
	fake := aiotest.Start(t, aiotest.Options{Generation: aiotest.Daemon})
	asked := map[string]int{}
	answer := func() bool { return true }
	call := serve(t, session.HostConfig{
		ExecEnv: &sandbox.RemoteConfig{BaseURL: fake.URL},
		SandboxPolicy: func(root, workspace string) bool {
			asked[root]++
			return answer()
		},
	})
	id, _, wall := bash(t, call, "true")
	if wall != "remote" || asked[id] != 1 {
		t.Errorf("wall %q, asked %v", wall, asked)
	}
	if err := call("POST", "/sessions/"+id+"/release", map[string]any{}, nil); err != nil {
		t.Fatal(err)
	}
	if err := call("POST", "/sessions/"+id+"/reprovision", map[string]any{}, nil); err != nil || asked[id] != 1 {
		t.Errorf("bound again: %v, asked %v", err, asked)
	}
	answer = func() bool { return false }
	before := fake.Requests("POST /v1/bash/exec")
	if _, _, wall := bash(t, call, "true"); wall != "local" || fake.Requests("POST /v1/bash/exec") != before {
		t.Errorf("by a policy of false: wall %q", wall)
	}

	// The same with a provider of its own, which then hands out nothing.
	places, askedB := &pool{}, 0
	callB := serve(t, session.HostConfig{SandboxProvider: places, SandboxPolicy: func(root, workspace string) bool {
		askedB++
		return false
	}})
	if _, _, wall := bash(t, callB, "true"); wall != "local" || askedB != 1 || len(places.allocated) != 0 {
		t.Errorf("mode B by a policy of false: wall %q, asked %d times, allocated %v", wall, askedB, places.allocated)
	}
	answer = func() bool { panic("no answer") }
	if err := call("POST", "/sessions", map[string]any{"title": "t"}, nil); err == nil {
		t.Error("a policy that panics opened a session")
	}
}
