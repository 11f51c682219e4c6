package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

type runFlags struct {
	wall, image, wire, workspace, model, agent, network, user, approvals string
	resources                                                            map[string]string
	mounts, allow, plugins                                               []string
	json, keep                                                           bool
}

func (c *cli) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] [goal]",
		Short: "Open a session, follow its first turn, and say how it ended",
		Long: "Run opens a session with a goal and follows its first turn. Where no server runs\n" +
			"for the data directory, the sandbox is removed at the end unless --keep is given;\n" +
			"with a running server the session stays open there. Ctrl-C stops the turn.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			// Notify, since an ignored signal would be ignored in sandboxes too: a
			// write to a reader that went away is an error then, not our end.
			broken := make(chan os.Signal, 1)
			signal.Notify(broken, syscall.SIGPIPE)
			defer signal.Stop(broken)
			return c.with(cmd.Context(), PartServe, func(client *apiClient) error {
				return c.run(cmd.Context(), client, f, strings.Join(args, " "))
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.wall, "wall", "", "docker, namespace, local (no isolation), or the URL of a sandbox that is there already; the default never is local")
	fl.StringVar(&f.image, "image", "", "image of the docker wall")
	fl.StringVar(&f.wire, "wire", "", "aio for an image that serves the AIO Sandbox API by its own command (default found out)")
	fl.StringVar(&f.workspace, "workspace", "", "directory to work in (default an empty one)")
	fl.StringVar(&f.model, "model", "", modelForms+" (default as configured, else demo)")
	fl.StringVar(&f.agent, "agent", "", "main (default), browser (leaves web pages to a subagent that has the sandbox's browser), explore or plan; the last two only read")
	fl.StringSliceVar(&f.plugins, "plugin", nil, "give the agent a `plugin`: browser (of the sandbox, where its image has one); \"\" is none (default as configured)")
	fl.StringVar(&f.network, "network", "", "proxy (default), none, or open (no isolation of the network)")
	fl.StringArrayVar(&f.allow, "allow", nil, "let the proxy reach `HOST[:PORT]` although it is not public; a name, *.DOMAIN, an address or a network")
	fl.StringVar(&f.user, "user", "", "host (default), image or root")
	fl.StringToStringVar(&f.resources, "limit", nil, "`limits` such as memory=2g,cpus=2,pids=512")
	fl.StringArrayVar(&f.mounts, "mount", nil, "a further mount as `JSON`: "+mountForm)
	fl.StringVar(&f.approvals, "approvals", "", "ask or auto")
	fl.BoolVar(&f.json, "json", false, "print every event as a line of JSON")
	fl.BoolVar(&f.keep, "keep", false, "keep the session and its sandbox at the end")
	return cmd
}

// mountForm is how a mount is written on the command line.
const mountForm = `{"source":"/dir","target":"/dir","mode":"ro"}`

// request returns the session that the flags ask for.
func (f runFlags) request(goal string) (httpapi.OpenRequest, error) {
	r := httpapi.OpenRequest{
		Goal: goal, Model: f.model, Agent: f.agent, Approvals: task.Approvals(f.approvals), Plugins: f.plugins,
		Spec: sandbox.Spec{
			Wall: sandbox.Wall(f.wall), Image: f.image, Wire: f.wire, User: f.user,
			Network: sandbox.Network{Mode: sandbox.NetworkMode(f.network), Allow: f.allow}, Resources: f.resources,
		},
	}
	if isURL(f.wall) {
		r.Spec.Wall, r.Spec.BaseURL = sandbox.WallRemote, f.wall
	}
	if r.Goal == "" {
		r.Goal = "Show what you can do."
	}
	if f.workspace != "" {
		abs, err := filepath.Abs(expandHome(f.workspace))
		if err != nil {
			return r, usageError{fmt.Errorf("--workspace: %w", err)}
		}
		r.Workspace = abs
	}
	for _, text := range f.mounts {
		var m sandbox.Mount
		if !json.Valid([]byte(text)) {
			return r, usageError{fmt.Errorf("--mount %s: it is not JSON; write %s", text, mountForm)}
		}
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&m); err != nil {
			return r, usageError{fmt.Errorf("--mount %s: %w", text, err)}
		}
		r.Spec.Mounts = append(r.Spec.Mounts, m)
	}
	if f.model == "" {
		return r, nil
	}
	if kind, file, ok := strings.Cut(f.model, ":"); ok && kind == "script" {
		abs, err := filepath.Abs(expandHome(file)) // the server has another directory
		if err != nil {
			return r, usageError{fmt.Errorf("--model: %w", err)}
		}
		r.Model = "script:" + abs
	}
	return r, nil
}

func expandHome(path string) string {
	if home, err := os.UserHomeDir(); err == nil && (path == "~" || strings.HasPrefix(path, "~/")) {
		return home + path[1:]
	}
	return path
}

func (c *cli) run(ctx context.Context, client *apiClient, f runFlags, goal string) error {
	req, err := f.request(goal)
	if err != nil {
		return err
	}
	var opened httpapi.Accepted
	if err := client.call(ctx, "POST", "/sessions", req, &opened); err != nil {
		return asUsage(err)
	}
	id := opened.SessionID
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p := &printer{out: outlet{c.out, stop}, json: f.json, think: c.verbose, id: id}
	p.line("session", map[string]any{}, "session %s", id)

	// The first interrupt, or the end of who reads this, stops the turn, whose end
	// the log then tells.
	last := context.WithoutCancel(ctx)
	follow, done := context.WithCancel(last)
	asked := newDesk()
	var decides sync.WaitGroup
	decides.Go(func() { c.decide(follow, client, id, asked) })
	defer decides.Wait()
	defer done()
	stopped := context.AfterFunc(ctx, func() {
		call, cancel := context.WithTimeout(last, stopTime)
		defer cancel()
		var e *apiError
		if err := client.call(call, "POST", "/sessions/"+id+"/interrupt", nil, nil); err != nil && !errors.As(err, &e) {
			done()
		}
	})
	defer stopped()
	turn := &turnWatch{printer: p, asked: asked, url: client.base, onward: ": glovebox retry " + id}
	if client.own && !f.keep {
		turn.onward = "; this session was not kept: run again, with --keep to go on from there"
	}
	err = client.follow(follow, id, 0, func(fr httpapi.Frame) error { return turn.frame(fr) })
	if errors.Is(err, errServerGone) || errors.Is(err, errServerStops) {
		return fmt.Errorf("%w; the turn goes on once glovebox serve runs again", err)
	}
	if err != nil {
		return err
	}
	if client.own && !f.keep {
		call, cancel := context.WithTimeout(last, stopTime)
		defer cancel()
		if err := client.call(call, "POST", "/sessions/"+id+"/close", nil, nil); err != nil {
			return fmt.Errorf("release the sandbox: %w", err)
		}
		p.line("released", map[string]any{}, "sandbox released")
	}
	return turn.outcome
}

// stopTime bounds a stop or a release at the end of a run.
const stopTime = 30 * time.Second

// turnWatch prints a turn and notices its end.
type turnWatch struct {
	*printer
	asked   *desk
	url     string
	onward  string // how to go on with a turn that is parked
	woken   bool
	outcome error
}

func (t *turnWatch) frame(f httpapi.Frame) error {
	t.printer.frame(f)
	if f.Type != "event" {
		return nil
	}
	p, err := task.Decode(*f.Event)
	if err != nil {
		return nil // a newer kind: printed, not understood
	}
	if f.Event.TaskID != f.Event.RootTaskID {
		switch p.(type) {
		case *task.ToolCallApprovalRequested, *task.ToolCallApprovalResolved, *task.UserQuestionRequested, *task.UserQuestionAnswered, *task.ToolResultRecorded:
		default: // its turns are not the session's
			return nil
		}
	}
	switch p := p.(type) {
	case *task.TaskWoken:
		t.woken = true
	case *task.ToolCallApprovalRequested:
		t.asked.ask(asked{callID: p.CallID}) // first, so that an answer to the line finds it
		if !t.json {
			t.line("", nil, "? allow %s? [y/N], or answer at %s", p.Tool, t.url)
		}
	case *task.UserQuestionRequested:
		t.asked.ask(asked{p.CallID, &p.Question})
		if !t.json {
			t.line("", nil, "  %s, or answer at %s", howToAnswer(p.Question), t.url)
		}
	case *task.ToolCallApprovalResolved:
		t.asked.settle(p.CallID)
	case *task.UserQuestionAnswered:
		t.asked.settle(p.CallID)
	case *task.ToolResultRecorded:
		t.asked.settle(p.CallID)
	case *task.TaskSuspended:
		switch {
		case p.Reason == task.TurnFailed:
			t.outcome = fmt.Errorf("the turn is parked: %s%s", printable(p.Detail), t.onward)
		case p.Reason == task.Interrupted:
			t.outcome = exitError{exitInterrupted}
		case p.WakeOn != task.WakeNextGoal:
			return nil
		}
		return errDone
	case *task.TaskFailed:
		t.outcome = errors.New(p.Error)
		return errDone
	case *task.TaskCompleted, *task.TaskCancelled:
		return errDone
	}
	return nil
}
