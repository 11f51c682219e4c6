// Package envtest is the suite that every execenv.Env passes: the same
// expectations whatever wall is around it.
//
//	func TestEnv(t *testing.T) {
//		envtest.Test(t, func(t *testing.T) (execenv.Env, string) {
//			return open(t), "/workspace"
//		}, envtest.Abilities{ExactlyOnce: true})
//	}
//
// It makes its files through the Env itself and asks of the place no more than
// a POSIX sh and the commands of busybox.
package envtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// Abilities are what some Envs can do and others cannot.
type Abilities struct {
	// ExactKill: a killed command cannot hide a process, whatever it changes of
	// session, parents and environment.
	ExactKill bool
	// Remote: a place that is spoken to by somebody else's API. What holds there
	// in part only is said by Limits.
	Remote *Limits
	// ExactlyOnce: an effect with a call id that is known returns its outcome
	// instead of happening again.
	ExactlyOnce bool
}

// Limits are what does not hold in a place that is spoken to by somebody else's
// API, beside that a kill proves nothing, that output is text rather than bytes,
// that children which live on are not reported, that a link can be swapped in
// between a check and a write, and that there are neither terminals nor watches.
type Limits struct {
	Merged    bool // both outputs come as one, at the end
	MayLinger bool // what was stopped may go on
}

// limit bounds each call of the suite, so that a hang is a failure.
const limit = 60 * time.Second

// Test runs the suite. open returns an Env and a directory in it that commands
// can write to; both may be shared between calls, since each test works in a
// directory of its own.
func Test(t *testing.T, open func(t *testing.T) (env execenv.Env, workdir string), a Abilities) {
	merged := a.Remote != nil && a.Remote.Merged
	for _, tt := range []struct {
		name string
		test func(*suite)
		skip bool
	}{
		{name: "run/exit", test: testExit},
		{name: "run/bytes", test: testBytes, skip: a.Remote != nil},
		{name: "run/text", test: testText},
		{name: "run/live", test: testLive, skip: merged},
		{name: "run/input", test: testInput},
		{name: "run/place", test: testPlace},
		{name: "run/background", test: testBackground, skip: a.Remote != nil},
		{name: "run/timeout", test: testTimeout, skip: a.Remote != nil},
		{name: "run/interrupt", test: testInterrupt, skip: a.Remote != nil},
		{name: "run/unproven", test: testUnproven, skip: a.Remote == nil},
		{name: "run/hidden", test: testHidden, skip: !a.ExactKill},
		{name: "run/large", test: testLarge},
		{name: "run/endless", test: testEndless},
		{name: "once", test: testOnce, skip: !a.ExactlyOnce},
		{name: "files/read", test: testRead},
		{name: "files/large", test: testReadLarge},
		{name: "files/write", test: testWrite},
		{name: "files/kept", test: testKept},
		{name: "files/edit", test: testEdit},
		{name: "files/parallel", test: testParallel},
		{name: "files/list", test: testList},
		{name: "files/change", test: testChange},
		{name: "fence", test: testFence},
		{name: "fence/swap", test: testSwap, skip: a.Remote != nil},
		{name: "search/glob", test: testGlob},
		{name: "search/grep", test: testGrep},
		{name: "search/snapshot", test: testSnapshot},
		{name: "terminals/shell", test: testTerminalShell, skip: a.Remote != nil},
		{name: "terminals/jobs", test: testTerminalJobs, skip: a.Remote != nil},
		{name: "terminals/views", test: testTerminalViews, skip: a.Remote != nil},
		{name: "terminals/flood", test: testTerminalFlood, skip: a.Remote != nil},
		{name: "terminals/deaf", test: testTerminalDeaf, skip: a.Remote != nil},
		{name: "terminals/close", test: testTerminalClose, skip: a.Remote != nil},
		{name: "terminals/end", test: testTerminalEnd, skip: a.Remote != nil},
		{name: "terminals/limits", test: testTerminalLimits, skip: a.Remote != nil},
		{name: "watch/changes", test: testWatch, skip: a.Remote != nil},
		{name: "watch/many", test: testWatchMany, skip: a.Remote != nil},
		{name: "watch/replaced", test: testWatchReplaced, skip: a.Remote != nil},
		{name: "watch/refused", test: testWatchRefused, skip: a.Remote != nil},
		{name: "watch/ends", test: testWatchEnds, skip: a.Remote != nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.skip {
				t.Skip("not an ability of this Env")
			}
			env, workdir := open(t)
			s := &suite{T: t, env: env, can: a, dir: path.Join(workdir, "envtest-"+strings.ToLower(rand.Text()[:8]))}
			s.must(env.Change(s.ctx(), execenv.ChangeRequest{Kind: execenv.ChangeMkdir, Path: s.dir}))
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), limit)
				defer cancel()
				_, err := env.Run(ctx, execenv.Command{Argv: []string{"rm", "-rf", s.dir}, Dir: workdir}, nil)
				if err != nil {
					t.Errorf("remove %s: %v", s.dir, err)
				}
			})
			tt.test(s)
		})
	}
}

// suite is one test with the Env it holds for and a directory of its own.
type suite struct {
	*testing.T
	env execenv.Env
	can Abilities
	dir string
}

// merged reports that both outputs come as one.
func (s *suite) merged() bool { return s.can.Remote != nil && s.can.Remote.Merged }

// ctx returns a context for one call.
func (s *suite) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	s.Cleanup(cancel)
	return ctx
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// is checks an error's kind.
func (s *suite) is(what string, err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// run runs a command and fails the test when it could not be run.
func (s *suite) run(c execenv.Command, live func(execenv.Chunk)) execenv.Outcome {
	s.Helper()
	if c.Dir == "" {
		c.Dir = s.dir
	}
	o, err := s.env.Run(s.ctx(), c, live)
	if err != nil {
		s.Fatalf("run %q: %v", c.Argv, err)
	}
	return o
}

// sh runs a script and returns how it ended.
func (s *suite) sh(script string) execenv.Outcome {
	s.Helper()
	return s.run(execenv.Command{Argv: []string{"sh", "-c", script}}, nil)
}

// do runs a script that must succeed and returns what it printed.
func (s *suite) do(script string) string {
	s.Helper()
	o := s.sh(script)
	if o.ExitCode != 0 {
		s.Fatalf("%s: exit code %d\n%s%s", script, o.ExitCode, text(o.Stdout), text(o.Stderr))
	}
	return text(o.Stdout)
}

// put writes a file.
func (s *suite) put(name, content string) {
	s.Helper()
	_, err := s.env.WriteFile(s.ctx(), execenv.WriteRequest{Path: s.path(name), Data: []byte(content)})
	s.must(err)
}

// get returns a file's bytes.
func (s *suite) get(name string) string {
	s.Helper()
	r, err := s.env.ReadFile(s.ctx(), execenv.ReadRequest{Path: s.path(name)})
	s.must(err)
	return string(r.Data)
}

// has checks a file's bytes.
func (s *suite) has(name, want string) {
	s.Helper()
	if got := s.get(name); got != want {
		s.Errorf("%s holds %q, want %q", name, got, want)
	}
}

// path returns the path of a name in the test's directory.
func (s *suite) path(name string) string { return s.dir + "/" + name }

// text joins what was kept of a stream.
func text(c execenv.Captured) string { return string(c.Head) + string(c.Tail) }

func hash(b string) string {
	sum := sha256.Sum256([]byte(b))
	return hex.EncodeToString(sum[:])
}

// alive counts the processes whose command line holds sleep and a number.
func (s *suite) alive(number string) int {
	s.Helper()
	// The brackets keep the pattern from matching the processes that look.
	out := s.do(fmt.Sprintf(`for f in /proc/[0-9]*/cmdline; do tr '\0' ' ' <$f 2>/dev/null; echo; done 2>/dev/null | grep -c '^slee[p] %s' || true`, number))
	n := 0
	if _, err := fmt.Sscan(out, &n); err != nil {
		s.Fatalf("count processes: %q: %v", out, err)
	}
	return n
}

// awaitAlive waits until so many processes sleep for number.
func (s *suite) awaitAlive(number string, want int) {
	s.Helper()
	deadline := time.Now().Add(limit)
	got := -1
	for time.Now().Before(deadline) {
		if got = s.alive(number); got == want {
			return
		}
	}
	s.Fatalf("%d processes sleep for %s, want %d", got, number, want)
}

// sleepNumber returns a number of seconds that nobody else sleeps for.
func sleepNumber() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("1%08d", (uint32(b[0])<<16|uint32(b[1])<<8|uint32(b[2]))%100_000_000)
}
