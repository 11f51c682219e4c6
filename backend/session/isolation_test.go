package session

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

const goodProbe = `hostname 3f2a9c
kernel 6.1.0-13-amd64
uid 1000
gid 1000
capabilities 0000000000000000
processes 3
init glovebox-guest
interface lo
end
`

func TestParseProbe(t *testing.T) {
	got, err := parseProbe(goodProbe)
	want := Probe{Hostname: "3f2a9c", UID: 1000, GID: 1000, Kernel: "6.1.0-13-amd64", Processes: 3, Init: "glovebox-guest",
		Capabilities: "0000000000000000", Interfaces: []string{"lo"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("parseProbe() = %v\n%s", err, diff)
	}
	with := func(old, new string) string { return strings.Replace(goodProbe, old, new, 1) }
	for name, out := range map[string]string{
		"nothing":                "",
		"no end":                 with("end\n", ""),
		"cut":                    goodProbe[:40],
		"more after the end":     goodProbe + "uid 0\n",
		"twice":                  with("uid 1000\n", "uid 1000\nuid 0\n"),
		"missing":                with("uid 1000\n", ""),
		"no number":              with("uid 1000", "uid root"),
		"a negative number":      with("uid 1000", "uid -1"),
		"a large number":         with("processes 3", "processes 99999999999999999999"),
		"sees nothing":           with("processes 3", "processes 0"),
		"no capabilities":        with("capabilities 0000000000000000", "capabilities none"),
		"short capabilities":     with("capabilities 0000000000000000", "capabilities 0"),
		"an escape sequence":     with("hostname 3f2a9c", "hostname \x1b[31mred"),
		"turned around":          with("hostname 3f2a9c", "hostname \u202egnp.exe"),
		"a long name":            with("init glovebox-guest", "init "+strings.Repeat("x", 16)),
		"an empty name":          with("kernel 6.1.0-13-amd64", "kernel "),
		"invalid UTF-8":          with("init glovebox-guest", "init \xff"),
		"a line of its own":      with("end\n", "welcome to this image\nend\n"),
		"carriage returns":       strings.ReplaceAll(goodProbe, "\n", "\r\n"),
		"a greeting on the line": "Welcome! " + goodProbe,
	} {
		if p, err := parseProbe(out); err == nil {
			t.Errorf("%s: parseProbe() = %+v, want an error", name, p)
		} else if diff := cmp.Diff(Probe{}, p); diff != "" {
			t.Errorf("%s: an error came with half an answer: %+v", name, p)
		}
	}
}

// runner answers as a place does.
type runner struct {
	o   execenv.Outcome
	err error
}

func (r runner) Run(context.Context, execenv.Command, func(execenv.Chunk)) (execenv.Outcome, error) {
	return r.o, r.err
}

func TestProbe_saysWhyThereIsNone(t *testing.T) {
	for name, c := range map[string]struct {
		runner
		want string
	}{
		"no shell":        {runner{o: execenv.Outcome{ExitCode: 127}}, "no sh"},
		"a failing shell": {runner{o: execenv.Outcome{ExitCode: 2}}, "exit code 2"},
		"a slow shell":    {runner{o: execenv.Outcome{TimedOut: true, ExitCode: 137}}, "did not end"},
		"a talking shell": {runner{o: execenv.Outcome{Stdout: execenv.Captured{Head: []byte(goodProbe), Total: 1 << 30}}}, "1073741824 bytes"},
		"a lying shell":   {runner{o: execenv.Outcome{Stdout: execenv.Captured{Head: []byte("uid 0\nend\n"), Total: 10}}}, "is missing"},
		"no place":        {runner{err: errors.New("the sandbox is stopped")}, "the sandbox is stopped"},
	} {
		got := probe(t.Context(), c.runner)
		if !strings.Contains(got.Error, c.want) {
			t.Errorf("%s: error %q, want one with %q", name, got.Error, c.want)
		}
		got.Error = ""
		if diff := cmp.Diff(Probe{}, got); diff != "" {
			t.Errorf("%s: half an answer: %s", name, diff)
		}
	}
}
