package app

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// everyCrash asks for more of TestCrashPoints than a few points of each operation:
// every request of the engine, and every third system call. "make crash" does.
var everyCrash = flag.Bool("crash.all", false, "kill a server at all steps of every operation on a sandbox, not at a few")

// A server that is killed at any step of an operation on a sandbox leaves nothing
// that the next one does not account for: no container, directory, volume or
// process without an owner, nothing removed that was not its own, and no session
// that cannot go on. The steps are the requests that it makes of the engine, each
// cut off before the engine has it, when it has done it, and in the middle of its
// answer; and the system calls by which it, or what it starts, changes anything on
// this machine.
func TestCrashPoints(t *testing.T) {
	for _, scene := range []struct {
		name       string
		wall       sandbox.Wall
		operations func(c *crashes) []operation
	}{
		{"docker", sandbox.WallDocker, ownOperations},
		{"adopted", sandbox.WallDocker, adoptedOperations},
		{"namespace", sandbox.WallNamespace, ownOperations},
	} {
		t.Run(scene.name, func(t *testing.T) {
			t.Parallel()
			have(t, scene.wall)
			c := newCrashes(t, scene.wall)
			for _, op := range scene.operations(c) {
				c.everywhere(op)
			}
			c.unharmed()
			t.Logf("%d kills; all that was there is accounted for", c.kills)
		})
	}
}

// operation is something that is done to a sandbox and cut off.
type operation struct {
	name    string
	prepare func() (session string)
	do      func(s *server, session string) error // ends when the operation has
	check   func(session string)                  // after the next start; uses up or keeps the session

	// For a short run: some of its system calls, and how many of its requests.
	calls []int
	steps int
}

// ownOperations are those on sandboxes that we make.
func ownOperations(c *crashes) []operation {
	spec := sandbox.Spec{Wall: c.wall, Image: c.image}
	ws := workspace(c.t, 1000)
	var title string // of the session that is being opened
	var kept string  // session whose sandbox is stopped and started
	ready := func() string {
		id := c.s.opened(spec, ws)
		c.s.mark(id)
		return id
	}
	stays := func() string {
		if kept == "" {
			kept = ready()
		}
		return kept
	}
	released := "" // a session that is let go of and given a sandbox again
	return []operation{{
		name: "allocate", calls: []int{12, 40}, steps: 3,
		prepare: func() string {
			title = fmt.Sprint("crash ", c.kills, time.Now().UnixNano())
			return ""
		},
		do: func(s *server, _ string) error {
			var a httpapi.Accepted
			if err := s.call(c.t.Context(), "POST", "/sessions", httpapi.OpenRequest{Title: title, Workspace: ws, Spec: spec}, &a); err != nil {
				return err
			}
			return s.untilBound(c.t.Context(), a.SessionID)
		},
		check: func(string) {
			for _, v := range c.sessions() {
				if v.Title == title { // else it was never said to be there
					awaitEvent(c.s, v.ID, time.Minute, func(*task.TaskHostBound) bool { return true })
					c.rests(v.ID, sandbox.StateReady)
					c.s.mark(v.ID)
					c.s.marked(v.ID)
					c.settle()
					c.s.post(v.ID, "close", nil)
				}
			}
		},
	}, {
		name: "stop", calls: []int{3}, steps: 1,
		prepare: stays,
		do: func(s *server, id string) error {
			return s.call(c.t.Context(), "POST", "/sessions/"+id+"/release", httpapi.ReleaseRequest{How: "stop"}, nil)
		},
		check: func(id string) { c.goesOn(id, sandbox.StateReady, sandbox.StateStopped) },
	}, {
		name: "start", calls: []int{4}, steps: 1,
		prepare: func() string {
			id := stays()
			c.s.post(id, "stop", nil)
			return id
		},
		do: func(s *server, id string) error {
			return s.call(c.t.Context(), "POST", "/sessions/"+id+"/attach", nil, nil)
		},
		check: func(id string) { c.goesOn(id, sandbox.StateReady, sandbox.StateStopped, sandbox.StatePaused) },
	}, {
		name: "remove", calls: []int{4, 10}, steps: 2,
		prepare: ready,
		do: func(s *server, id string) error {
			return s.call(c.t.Context(), "POST", "/sessions/"+id+"/release", nil, nil)
		},
		check: func(id string) {
			if v := c.rests(id, sandbox.StateReady, sandbox.StateReleased); v.Sandbox.Value == sandbox.StateReady {
				c.goesOn(id, sandbox.StateReady) // the click was never heard
				c.s.post(id, "release", nil)
			}
			c.settle()
			c.s.post(id, "close", nil)
		},
	}, {
		name: "close", calls: []int{13},
		prepare: ready,
		do: func(s *server, id string) error {
			return s.call(c.t.Context(), "POST", "/sessions/"+id+"/close", nil, nil)
		},
		check: func(id string) {
			if v := c.s.show(id); v.Status != task.StatusEnded {
				c.goesOn(id, sandbox.StateReady)
				c.s.post(id, "close", nil)
			}
			c.rests(id, sandbox.StateReleased)
		},
	}, {
		name: "keep", calls: []int{3},
		prepare: ready,
		do: func(s *server, id string) error {
			return s.call(c.t.Context(), "POST", "/sessions/"+id+"/release", httpapi.ReleaseRequest{How: "keep"}, nil)
		},
		check: func(id string) {
			if v := c.rests(id, sandbox.StateReady, sandbox.StateDetached); v.Sandbox.Value == sandbox.StateReady {
				c.goesOn(id, sandbox.StateReady)
				c.s.post(id, "release", httpapi.ReleaseRequest{How: "keep"})
			}
			v := c.s.show(id)
			guest := guestOf(c.t, v) // which runs
			c.settle()
			discard(c.t, c.wall, v.ShortID, guest, []string{v.Ref.ID()})
			c.forget(v.Ref.ID())
			c.s.post(id, "close", nil)
		},
	}, {
		name: "reprovision", calls: []int{22},
		prepare: func() string {
			if released == "" {
				released = ready()
			}
			c.s.post(released, "release", nil)
			return released
		},
		do: func(s *server, id string) error {
			return s.call(c.t.Context(), "POST", "/sessions/"+id+"/reprovision", nil, nil)
		},
		check: func(id string) {
			if v := c.rests(id, sandbox.StateReady, sandbox.StateReleased, sandbox.StateFailed); v.Sandbox.Value != sandbox.StateReady {
				c.s.post(id, "reprovision", nil)
				c.rests(id, sandbox.StateReady)
			}
			c.bound(id)
			c.s.mark(id)
			c.s.marked(id)
		},
	}}
}

// adoptedOperations are those on a guest in a container that was there before.
func adoptedOperations(c *crashes) []operation {
	id := strangersContainer(c.t)
	before := engine(c.t, "diff", id)
	adopt := func(s *server) (string, error) {
		var a httpapi.Accepted
		err := s.call(c.t.Context(), "POST", "/containers/"+id+"/attach", httpapi.AttachRequest{Approvals: task.ApproveAuto}, &a)
		if err == nil {
			err = s.untilBound(c.t.Context(), a.SessionID)
		}
		return a.SessionID, err
	}
	adopted := func() string {
		session, err := adopt(c.s)
		if err != nil {
			c.t.Fatal(err)
		}
		return session
	}
	asFound := func() {
		c.t.Helper()
		if after := engine(c.t, "diff", id); !slices.Equal(after, before) {
			c.t.Errorf("docker diff was %q and is %q", before, after)
		}
		if out := engine(c.t, "top", id, "-eo", "pid,comm"); len(out) != 4 || out[3] != "sleep" {
			c.t.Errorf("what runs in it: %q", out)
		}
	}
	works := func(session string) {
		c.t.Helper()
		if r := c.s.bash(session, "hostname"); r.Status != task.CallOK || !strings.Contains(r.Text, id[:12]) {
			c.t.Errorf("in the container: %s %q", r.Status, r.Text)
		}
	}
	kept := ""
	return []operation{{
		name: "adopt", calls: []int{16}, steps: 3,
		prepare: func() string { return "" },
		do: func(s *server, _ string) error {
			_, err := adopt(s)
			return err
		},
		check: func(string) {
			for _, v := range c.sessions() {
				if v.Status == task.StatusEnded {
					continue
				}
				awaitEvent(c.s, v.ID, time.Minute, func(*task.TaskHostBound) bool { return true })
				c.rests(v.ID, sandbox.StateReady)
				works(v.ID)
				c.settle()
				c.s.post(v.ID, "close", nil)
			}
			asFound()
		},
	}, {
		name: "leave", steps: 5,
		prepare: adopted,
		do: func(s *server, session string) error {
			return s.call(c.t.Context(), "POST", "/sessions/"+session+"/release", nil, nil)
		},
		check: func(session string) {
			if v := c.rests(session, sandbox.StateReady, sandbox.StateReleased); v.Sandbox.Value == sandbox.StateReady {
				works(session)
				c.s.post(session, "release", nil)
			}
			asFound()
			c.s.post(session, "close", nil)
		},
	}, {
		name: "return", calls: []int{6}, steps: 1,
		prepare: func() string {
			if kept == "" {
				kept = adopted()
			}
			engine(c.t, "restart", "-t", "0", id) // with which the guest is gone
			return kept
		},
		do: func(s *server, session string) error {
			return s.call(c.t.Context(), "POST", "/sessions/"+session+"/attach", nil, nil)
		},
		check: func(session string) {
			c.s.post(session, "attach", nil)
			c.rests(session, sandbox.StateReady)
			works(session)
		},
	}, {
		name: "leave for good", calls: []int{1},
		prepare: func() string { return kept },
		do:      func(s *server, session string) error { return nil },
		check: func(session string) {
			c.s.post(session, "close", nil)
			asFound()
		},
	}}
}
