package tools_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

func TestBash_output(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		status  task.CallStatus
		want    string
	}{
		"stdout":        {"echo hi", task.CallOK, "hi"},
		"stderr alone":  {"echo no >&2", task.CallOK, "no"},
		"both":          {"echo a; echo b >&2", task.CallOK, "a\nstderr:\nb"},
		"nothing":       {"true", task.CallOK, "(no output)"},
		"failure":       {"echo x; exit 3", task.CallError, "x\nExit code 3"},
		"silent":        {"false", task.CallError, "(no output)\nExit code 1"},
		"signal":        {"kill -9 $$", task.CallError, "(no output)\nExit code 137: killed by signal 9"},
		"invalid bytes": {`printf 'a\377b'`, task.CallOK, "a\uFFFDb"},
		"as written":    {`echo "$((1+1))" '*' "a  b"`, task.CallOK, "2 * a  b"},
	} {
		t.Run(name, func(t *testing.T) {
			if r := newBench(t).call("Bash", in{"command": c.command}, c.status); r.Text != c.want {
				t.Errorf("text = %q, want %q", r.Text, c.want)
			}
		})
	}
}

func TestBash_runsInTheWorkspace(t *testing.T) {
	b := newBench(t)
	b.call("Bash", in{"command": "mkdir s; cd s; pwd"}, task.CallOK, b.path("s"))
	if r := b.call("Bash", in{"command": "pwd"}, task.CallOK); r.Text != b.dir {
		t.Errorf("the next call ran in %q, want %q", r.Text, b.dir)
	}
}

func TestBash_longOutput(t *testing.T) {
	b := newBench(t)
	r := b.call("Bash", in{"command": "echo first; yes 2>/dev/null | head -c 5000000; echo last; exit 4"}, task.CallError,
		"first\n", "last\nExit code 4", "of 5,000,011 cut")
	if n := utf8.RuneCountInString(r.Text); n > 30_000 || n < 28_000 {
		t.Errorf("text has %d characters, want nearly 30,000 at most", n)
	}
	d := r.Display.(tools.BashDisplay)
	if d.StdoutTotal != 5_000_011 || d.Dropped < 4_900_000 || len(d.Stdout) > 31_000 || d.ExitCode != 4 {
		t.Errorf("display: total %d, dropped %d, shown %d, exit code %d", d.StdoutTotal, d.Dropped, len(d.Stdout), d.ExitCode)
	}
}

func TestBash_longOutputIsCutBetweenCharacters(t *testing.T) {
	b := newBench(t)
	r := b.call("Bash", in{"command": "i=0; while [ $i -lt 500 ]; do printf '" + strings.Repeat("你", 100) + "'; i=$((i+1)); done"}, task.CallOK, "of 150,000 cut")
	if strings.Contains(r.Text, "\uFFFD") || utf8.RuneCountInString(r.Text) > 30_000 {
		t.Errorf("text has %d characters, one of them broken: %v", utf8.RuneCountInString(r.Text), strings.Contains(r.Text, "\uFFFD"))
	}
}

func TestBash_longErrorsLeaveRoom(t *testing.T) {
	r := newBench(t).call("Bash", in{"command": "yes out | head -c 100000; yes err | head -c 100000 >&2"}, task.CallOK, "stderr:\nerr")
	if n := utf8.RuneCountInString(r.Text); n > 30_000 || strings.Count(r.Text, "out") < 4000 || strings.Count(r.Text, "err") < 2000 {
		t.Errorf("text has %d characters, %d out, %d err", n, strings.Count(r.Text, "out"), strings.Count(r.Text, "err"))
	}
}

func TestBash_timeout(t *testing.T) {
	r := newBench(t).call("Bash", in{"command": "echo begun; sleep 60", "timeout": 2500}, task.CallTimeout,
		"begun\n", "Command timed out after 2.5s; killed: sh (", "0 processes left")
	if d := r.Display.(tools.BashDisplay); !d.TimedOut || d.Kill == nil || r.Kill == nil {
		t.Errorf("display = %+v, kill = %v", d, r.Kill)
	}
}

func TestBash_interrupt(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := b.try(ctx, "Bash", in{"command": `sleep 611 & until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done; echo begun; wait`}, func(execenv.Chunk) { cancel() })
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != task.CallInterrupted || r.Kill == nil {
		t.Errorf("result = %+v", r)
	}
	for _, part := range []string{"begun\n", "interrupted (stop requested); killed: ", "sleep (", "0 processes left"} {
		if !strings.Contains(r.Text, part) {
			t.Errorf("text = %q, want it to hold %q", r.Text, part)
		}
	}
}

func TestBash_leavesTheBackgroundAlone(t *testing.T) {
	b := newBench(t)
	r := b.call("Bash", in{"command": `sleep 612 & until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done; echo done`}, task.CallOK, "done\n", "Background processes still running: sleep (")
	d := r.Display.(tools.BashDisplay)
	if len(d.Background) != 1 || d.Background[0].Name != "sleep" {
		t.Errorf("background = %v", d.Background)
	}
	if r := b.call("Bash", in{"command": "echo next"}, task.CallOK); r.Text != "next" {
		t.Errorf("the next call says %q", r.Text)
	}
}

func TestBash_missingWorkspace(t *testing.T) {
	b := newBench(t)
	if err := os.RemoveAll(b.dir); err != nil {
		t.Fatal(err)
	}
	b.call("Bash", in{"command": "echo hi"}, task.CallError, "Workspace missing")
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b.call("Bash", in{"command": "echo hi"}, task.CallOK, "hi")
}

// endEnv ends every command in one way.
type endEnv struct {
	execenv.Env

	outcome execenv.Outcome
	err     error
	command execenv.Command
	shell   string
}

func (e *endEnv) Where() execenv.Where { return execenv.Where{Workdir: "/w"} }
func (e *endEnv) Shell() string        { return e.shell }
func (e *endEnv) Run(_ context.Context, c execenv.Command, _ func(execenv.Chunk)) (execenv.Outcome, error) {
	e.command = c
	return e.outcome, e.err
}

func TestBash_saysHowItEnded(t *testing.T) {
	ps := []execenv.Process{{PID: 12, Name: "sleep"}, {PID: 13, Name: "sh"}}
	for name, c := range map[string]struct {
		outcome execenv.Outcome
		want    string
	}{
		"background":    {execenv.Outcome{Background: ps}, "(no output)\nBackground processes still running: sleep (12), sh (13)"},
		"out of memory": {execenv.Outcome{ExitCode: 137, Signal: 9, OutOfMemory: true}, "killed by signal 9\nA process was killed, probably out of memory"},
		"unkillable":    {execenv.Outcome{TimedOut: true, Kill: &execenv.KillReport{Killed: ps[:1], Left: ps[1:]}}, "killed: sleep (12); 1 process left: sh (13)"},
		"stuck":         {execenv.Outcome{TimedOut: true, Kill: &execenv.KillReport{Stuck: ps[:1], BestEffort: true}}, "0 processes left; stuck in the kernel: sleep (12) (best effort"},
		"no proof":      {execenv.Outcome{TimedOut: true}, "timed out after 120s; it may still be running"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := tools.NewBash().Run(t.Context(), tools.Call{Env: &endEnv{outcome: c.outcome}, Input: []byte(`{"command": "x"}`)})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(r.Text, c.want) {
				t.Errorf("text = %q, want it to hold %q", r.Text, c.want)
			}
		})
	}
}

// The result says of a call that never reached its place that it was not made, and
// only where that is known.
func TestBash_saysWhetherItWasMade(t *testing.T) {
	stopped := fmt.Errorf("the sandbox is stopped: %w: %w", execenv.ErrLost, sandbox.ErrStopped)
	for name, c := range map[string]struct {
		input   string
		outcome execenv.Outcome
		err     error
		notMade bool
	}{
		"ran":                      {`{"command": "x"}`, execenv.Outcome{}, nil, false},
		"failed":                   {`{"command": "x"}`, execenv.Outcome{ExitCode: 1}, nil, false},
		"no command":               {`{"command": " "}`, execenv.Outcome{}, nil, true},
		"in the background":        {`{"command": "x", "run_in_background": true}`, execenv.Outcome{}, nil, true},
		"no workspace":             {`{"command": "x"}`, execenv.Outcome{}, execenv.ErrWorkdirGone, true},
		"no program to run it":     {`{"command": "x"}`, execenv.Outcome{}, errors.New("no /bin/sh"), true},
		"stopped before":           {`{"command": "x"}`, execenv.Outcome{}, stopped, true},
		"stopped with its sandbox": {`{"command": "x"}`, execenv.Outcome{Interrupted: true}, stopped, false},
		"lost":                     {`{"command": "x"}`, execenv.Outcome{}, execenv.ErrLost, false},
		"outcome unknown":          {`{"command": "x"}`, execenv.Outcome{}, execenv.ErrOutcomeUnknown, false},
	} {
		r, err := tools.NewBash().Run(t.Context(), tools.Call{Env: &endEnv{outcome: c.outcome, err: c.err}, Input: []byte(c.input)})
		if err != nil || r.NotMade != c.notMade {
			t.Errorf("%s: not made %v, %v, want %v; text %q", name, r.NotMade, err, c.notMade, r.Text)
		}
		if strings.Contains(r.Text, "Nothing was done") && !r.NotMade {
			t.Errorf("%s: it may have done something, and says %q", name, r.Text)
		}
		rec, err := r.Record("c", "Bash", execenv.Where{}, 0)
		if err != nil || rec.NotMade != c.notMade {
			t.Errorf("%s: the log says not made %v, %v", name, rec.NotMade, err)
		}
	}
}

func TestBash_asksTheEnvForItsShell(t *testing.T) {
	for shell, want := range map[string]string{"": "/bin/sh", "/bin/bash": "/bin/bash"} {
		e := &endEnv{shell: shell}
		if _, err := tools.NewBash().Run(t.Context(), tools.Call{ID: "c", Boot: "b", Env: e, Input: []byte(`{"command": "a 'b'"}`)}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(e.command.Argv, "|"); got != want+"|-c|a 'b'" {
			t.Errorf("argv = %s", got)
		}
		if e.command.Call != (execenv.Call{ID: "c", Boot: "b"}) {
			t.Errorf("call = %+v, want the take-up passed on", e.command.Call)
		}
	}
}
