package session

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// Tool makes one tool call by a person's hand in the session's place, and
// returns its recorded result. It shows in the timeline and is not part of the
// model's conversation. When ctx ends the call is stopped.
func (s *Service) Tool(ctx context.Context, id, name string, input json.RawMessage) (*task.ToolResultRecorded, error) {
	tool, ok := s.personTools().Lookup(name)
	if !ok {
		return nil, &sandbox.FieldError{Field: "tool", Reason: fmt.Sprintf("unknown tool %q; choose of %s", name, strings.Join(s.personTools().Names(), ", "))}
	}
	if _, asks := tool.(tools.Asker); asks {
		return nil, &sandbox.FieldError{Field: "tool", Reason: name + " is a question of an agent to you; there is nothing to run"}
	}
	if err := s.rouseFor(ctx, id); err != nil {
		return nil, err
	}
	env, v, err := s.personEnv(ctx, id)
	if err != nil {
		return nil, err
	}
	defer s.using(v.ID)()
	callID := newCallID()
	s.setOwn(callID, true)
	defer s.setOwn(callID, false)
	started := &task.ToolCallStarted{CallID: callID, Tool: name, Input: input, Actor: task.ActorPerson, Where: env.Where()}
	if err := s.append(ctx, v.ID, 0, started); err != nil {
		return nil, err
	}
	return s.personCall(ctx, v.ID, tool, started, time.Now(), env, "")
}

// personTools are the tools that a person may use: those of agents, whatever an
// agent of theirs may do.
func (s *Service) personTools() *tools.Set {
	if s.o.Browsers == nil {
		return s.o.Tools
	}
	return s.o.Tools.With(tools.Browser()...)
}

// personCall runs a call that was started at begun and closes it in the log.
// boot is set when that was before a crash.
func (s *Service) personCall(ctx context.Context, root string, tool tools.Tool, started *task.ToolCallStarted, begun time.Time, env execenv.Env, boot string) (*task.ToolResultRecorded, error) {
	seen := sync.OnceValue(func() map[string]string { // most tools never ask
		st, err := s.o.Store.State(ctx, root)
		if err != nil {
			return nil
		}
		return st.Seen[task.ActorPerson]
	})
	result, err := tool.Run(ctx, tools.Call{
		ID: started.CallID, Boot: boot, Input: started.Input, Env: env,
		Known: func(path string) (string, bool) { h, ok := seen()[path]; return h, ok },
		Live:  s.outputOf(root, started.CallID), Browser: s.agentBrowser(root),
	})
	if err != nil && boot != "" {
		return nil, err // nothing is known of it yet; the next attach asks again
	}
	if err != nil {
		result = tools.Result{Status: task.CallError, Text: err.Error()}
	}
	record, err := result.Record(started.CallID, started.Tool, env.Where(), time.Since(begun))
	if err != nil {
		return nil, err
	}
	recorded := &record
	ctx = context.WithoutCancel(ctx)
	if err := s.append(ctx, root, 0, recorded); err != nil {
		return nil, err
	}
	s.live.settle(root, root, recorded)
	if started.Where.Boot != "" && tools.Kept(tool) { // by a guest
		if err := s.ack(ctx, root, started.CallID); err != nil {
			s.o.Log.Debug("call not acknowledged", "session", root, "call", started.CallID, "err", err)
		}
	}
	return recorded, s.append(ctx, root, 0, &task.ToolCallFinished{CallID: started.CallID})
}

// finishPersonCalls takes up the calls that a person made before a crash. The
// calls of this process's own life are not among them: those are being waited for.
func (s *Service) finishPersonCalls(ctx context.Context, j *journal) error {
	st := j.State()
	for _, id := range st.Open {
		call := st.Calls[id]
		if call == nil || call.Started == nil || call.Started.Actor != task.ActorPerson || call.Result != nil || s.isOwn(id) {
			continue
		}
		tool, ok := s.personTools().Lookup(call.Started.Tool)
		if !ok {
			continue
		}
		env, err := s.env(ctx, st.Bound, j.root, execenv.Caller{})
		if err != nil {
			return err
		}
		boot := call.Started.Where.Boot
		if boot == "" {
			boot = "none" // no guest: whatever it did, nobody kept it
		}
		if _, err := s.personCall(ctx, j.root, tool, call.Started, call.StartedAt, env, boot); err != nil {
			return err
		}
	}
	return nil
}

// Exec runs a person's command in the session's place without a record in the
// timeline; nothing of its output is dropped.
func (s *Service) Exec(ctx context.Context, id string, c execenv.Command, live func(execenv.Chunk)) (execenv.Outcome, error) {
	if err := s.rouseFor(ctx, id); err != nil {
		return execenv.Outcome{}, err
	}
	env, v, err := s.personEnv(ctx, id)
	if err != nil {
		return execenv.Outcome{}, err
	}
	defer s.using(v.ID)()
	c.Overflow = execenv.OverflowBlock
	return env.Run(ctx, c, live)
}

// personEnv waits until a session that is being opened has its place, and opens
// that for a person.
func (s *Service) personEnv(ctx context.Context, id string) (execenv.Env, View, error) {
	bell := s.o.Hub.Subscribe()
	defer bell.Close()
	for {
		v, err := s.View(ctx, id)
		if err != nil {
			return nil, v, err
		}
		switch {
		case v.Status == task.StatusEnded:
			return nil, v, ErrEnded
		case v.Bound != nil:
			env, err := s.env(ctx, v.Bound, v.ID, execenv.Caller{})
			return env, v, err
		case v.Detail != "":
			return nil, v, fmt.Errorf("%w: %s", ErrNotBound, v.Detail)
		}
		select {
		case <-bell.C():
		case <-ctx.Done():
			return nil, v, ctx.Err()
		}
	}
}

// outputOf returns the sink of a call's live output.
func (s *Service) outputOf(root, callID string) func(execenv.Chunk) {
	frames := stream.NewOutput(root, root, callID)
	return func(c execenv.Chunk) {
		s.publish(frames.Frame(c.Stream.String(), c.Offset, c.Data))
	}
}

func (s *Service) setOwn(callID string, own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own {
		s.own[callID] = struct{}{}
	} else {
		delete(s.own, callID)
	}
}

func (s *Service) isOwn(callID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.own[callID]
	return ok
}
