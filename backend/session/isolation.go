package session

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// Isolation is the same probe, made at the same time on the host and in a
// session's place. Without a wall both are the host.
type Isolation struct {
	At      time.Time
	Command string
	Host    Probe
	Sandbox Probe
}

// Probe is what the kernel told one side. When Error says why there is nothing,
// all else is empty.
type Probe struct {
	Hostname     string
	UID          int
	GID          int
	Kernel       string
	Processes    int
	Init         string
	Capabilities string
	Interfaces   []string
	Error        string
}

// probeTime bounds a probe.
const probeTime = 5 * time.Second

// probeScript asks the kernel, and nobody else: it is all built into a POSIX
// shell, so no program of an image, whatever that is, gives an answer. The
// shell opens /proc/self/status by itself, so what is in it is its own.
const probeScript = `IFS= read -r v </proc/sys/kernel/hostname && echo "hostname $v"
IFS= read -r v </proc/sys/kernel/osrelease && echo "kernel $v"
while read -r k r e rest; do
  case $k in Uid:) echo "uid $e" ;; Gid:) echo "gid $e" ;; CapEff:) echo "capabilities $r" ;; esac
done </proc/self/status
n=0
for p in /proc/[0-9]*; do [ -d "$p" ] && n=$((n + 1)); done
echo "processes $n"
IFS= read -r v </proc/1/comm && echo "init $v"
while read -r k rest; do
  case $k in *:*) echo "interface ${k%%:*}" ;; esac
done </proc/net/dev
echo end`

// Isolation runs the probe on both sides.
func (s *Service) Isolation(ctx context.Context, id string) (Isolation, error) {
	if _, err := s.View(ctx, id); err != nil {
		return Isolation{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	out := Isolation{At: time.Now(), Command: probeScript}
	var both sync.WaitGroup
	both.Go(func() { out.Host = probe(ctx, s.o.HostRunner) })
	both.Go(func() {
		env, _, err := s.personEnv(ctx, id)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			out.Sandbox.Error = fmt.Sprintf("there is no sandbox that answers within %v", probeTime)
		case err != nil:
			out.Sandbox.Error = err.Error()
		default:
			out.Sandbox = probe(ctx, env)
		}
	})
	both.Wait()
	return out, nil
}

func probe(ctx context.Context, r execenv.Runner) Probe {
	fail := func(format string, a ...any) Probe { return Probe{Error: fmt.Sprintf(format, a...)} }
	o, err := r.Run(ctx, execenv.Command{Argv: []string{"sh", "-c", probeScript}, Timeout: probeTime}, nil)
	switch {
	case errors.Is(err, execenv.ErrNotFound), err == nil && (o.ExitCode == 127 || o.ExitCode == 126):
		return fail("there is no sh to run the probe with")
	case err != nil:
		return fail("%v", err)
	case o.TimedOut, o.Interrupted:
		return fail("the probe did not end within %v", probeTime)
	case o.ExitCode != 0:
		return fail("the probe ended with exit code %d", o.ExitCode)
	case o.Stdout.Dropped() > 0:
		return fail("the probe printed %d bytes; that is not how it answers", o.Stdout.Total)
	}
	p, err := parseProbe(string(o.Stdout.Head) + string(o.Stdout.Tail))
	if err != nil {
		return fail("the probe's answer does not fit: %v", err)
	}
	return p
}

var capabilitySet = regexp.MustCompile(`^[0-9a-f]{16}$`)

// parseProbe reads what the script printed: each line once, interfaces as often
// as there are, "end" last. What an image made of it otherwise is refused whole.
func parseProbe(out string) (Probe, error) {
	body, ok := strings.CutSuffix(out, "end\n")
	if !ok {
		return Probe{}, errors.New("it has no end")
	}
	p := Probe{Interfaces: []string{}}
	seen := map[string]bool{}
	for line := range strings.Lines(body) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if seen[key] && key != "interface" {
			return Probe{}, fmt.Errorf("%s is there twice", key)
		}
		seen[key] = true
		var err error
		switch key {
		case "hostname":
			p.Hostname, err = word(value, 64)
		case "kernel":
			p.Kernel, err = word(value, 64)
		case "init":
			p.Init, err = word(value, 15)
		case "uid":
			p.UID, err = number(value, 1<<32-1)
		case "gid":
			p.GID, err = number(value, 1<<32-1)
		case "processes":
			p.Processes, err = number(value, 1<<22)
		case "capabilities":
			if p.Capabilities = value; !capabilitySet.MatchString(value) {
				err = errors.New("no set of capabilities")
			}
		case "interface":
			var name string
			name, err = word(value, 15)
			p.Interfaces = append(p.Interfaces, name)
		default:
			return Probe{}, fmt.Errorf("an unknown line of %d bytes", len(line))
		}
		if err != nil {
			return Probe{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	for _, key := range []string{"hostname", "kernel", "init", "uid", "gid", "processes", "capabilities"} {
		if !seen[key] {
			return Probe{}, fmt.Errorf("%s is missing", key)
		}
	}
	if p.Processes < 1 {
		return Probe{}, errors.New("processes: it does not see itself")
	}
	return p, nil
}

// word returns text that a screen can show on one line.
func word(s string, most int) (string, error) {
	if s == "" || len(s) > most || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", errors.New("no such name")
	}
	return s, nil
}

func number(s string, most int64) (int, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || int64(n) > most {
		return 0, errors.New("no such number")
	}
	return int(n), nil
}
