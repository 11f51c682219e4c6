package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// HostConfig is how a program that embeds the server says where tools run,
// beyond what a configuration file can say. The zero value changes nothing.
//
// There are two modes. With ExecEnv, every session works in one sandbox that is
// there already (mode A). With SandboxProvider, every root task is given one of
// its own, and released at its end (mode B). Where both are set the provider
// wins and ExecEnv is not looked at. A session that is bound stays bound as its
// log says, whatever a later HostConfig holds.
type HostConfig struct {
	// ExecEnv is mode A: the one shared sandbox.
	ExecEnv *sandbox.RemoteConfig

	// SandboxProvider is mode B. It stands behind the wall of SandboxSpec, or the
	// remote one where that names none, in the place of the application's own.
	SandboxProvider sandbox.Provider

	// SandboxSpec is what a session of mode B takes where it names nothing itself.
	SandboxSpec sandbox.Spec

	// SandboxExecPreamble is asked, fresh for every command, for shell text to put
	// between the change of directory and the command, with its own separator:
	// "export TOKEN=x && ". It is never recorded. Text that fails, or an error,
	// stops the command. Operations on files have none.
	SandboxExecPreamble func(ctx context.Context, ref sandbox.Ref, argv []string) (string, error)

	// SandboxBackendFactory makes the Env of a sandbox in the place of the
	// application's own. The preamble is bound to the sandbox; nil for none. An Env
	// that is an io.Closer is closed when its sandbox is let go of.
	SandboxBackendFactory func(h sandbox.Handle, preamble execenv.Preamble) (execenv.Env, error)

	// SandboxBrowserFactory makes the browser of a sandbox in the place of the
	// application's own, guests' included: one that the agent acts on, and that
	// nobody looks on. It is asked once for each sandbox of a root task, when its
	// browser is first needed; nil without an error is a sandbox that has none. A
	// Backend that is an io.Closer is closed when its sandbox is stopped or let go of.
	SandboxBrowserFactory func(h sandbox.Handle) (browser.Backend, error)

	// SandboxPolicy says whether a root task gets a sandbox. It is asked once, when
	// a session is opened that does not itself ask for the host; the answer is in
	// the log and holds for ever. False is the host itself, in both modes; a
	// session that asks for a wall by name is then refused rather than moved. A
	// panic opens nothing. workspaceDir is "" for one that is yet to be made.
	SandboxPolicy func(rootTaskID, workspaceDir string) bool
}

// errPolicy is a policy that gave no answer.
var errPolicy = errors.New("the host's sandbox policy failed; nothing was opened")

// sandboxed asks the policy.
func (c HostConfig) sandboxed(rootTaskID, workspace string) (ok bool, err error) {
	if c.SandboxPolicy == nil {
		return true, nil
	}
	defer func() {
		if v := recover(); v != nil {
			ok, err = false, fmt.Errorf("%w: %v", errPolicy, v)
		}
	}()
	return c.SandboxPolicy(rootTaskID, workspace), nil
}
