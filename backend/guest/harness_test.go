//go:build linux

package guest_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// binary is the guest, built as it is shipped: without cgo.
var binary string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "guest-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if err := os.Chmod(dir, 0o755); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		binary = filepath.Join(dir, "glovebox-guest")
		build := exec.Command("go", "build", "-o", binary, "./cmd/glovebox-guest")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the guest: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// place is a sandbox's worth of directories, with a guest that can be started
// in it several times.
type place struct {
	t      testing.TB
	cfg    wire.GuestConfig
	secret []byte
	shadow bool // the guest gets a pid namespace of its own
	docker bool // and the rights that it has in a container
	cmd    *exec.Cmd
	log    *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newPlace(t testing.TB, change ...func(*place)) *place {
	t.Helper()
	dir, err := os.MkdirTemp("", "g") // short: socket paths are
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &place{t: t, secret: []byte("a secret of the host"), log: &lockedBuffer{}}
	key := client.DeriveKey(p.secret, "guest-1")
	p.cfg = wire.GuestConfig{
		GuestID:   "guest-1",
		PublicKey: key.Public().(ed25519.PublicKey),
		Socket:    filepath.Join(dir, "s"),
		StateDir:  filepath.Join(dir, "state"),
		LockFile:  filepath.Join(dir, "lock"),
		Workdir:   filepath.Join(dir, "work"),
		Home:      filepath.Join(dir, "home"),
		User:      "host",
		Tag:       wire.TagGroup,
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, as the first process of a container is")
	}
	for _, d := range []string{p.cfg.StateDir, p.cfg.Workdir, p.cfg.Home} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p.own(1234)
	for _, f := range change {
		f(p)
	}
	return p
}

// own gives the workspace to a user.
func (p *place) own(uid int) {
	for _, d := range []string{p.cfg.Workdir, p.cfg.Home} {
		if err := os.Chown(d, uid, uid); err != nil {
			p.t.Fatal(err)
		}
	}
}

func uts(p *place) { p.cfg.Tag = wire.TagUTS; p.own(0) }

func withNamespace(p *place) { p.shadow = true }

func asInDocker(p *place) { p.docker = true }

// start starts a guest and returns a client of it.
func (p *place) start() *client.Client {
	p.t.Helper()
	cfg, err := json.Marshal(p.cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	argv := []string{binary, "serve", "--config", string(cfg)}
	attr := &syscall.SysProcAttr{}
	if p.docker {
		argv = append([]string{"setpriv", "--no-new-privs", "--bounding-set=-all,+setuid,+setgid,+kill,+setpcap"}, argv...)
	}
	// A guest that marks by group always has its own pid namespace, as in a
	// container: among the host's processes are those of other guests, who hand
	// out the same groups, and it would kill theirs for its own.
	if p.shadow || p.cfg.Tag == wire.TagGroup {
		attr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
		argv = append([]string{"/bin/sh", "-c", `mount --make-rprivate / && mount -t proc proc /proc && exec "$@"`, "sh"}, argv...)
	}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.SysProcAttr = attr
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	cmd, log, c := p.cmd, p.log, p.client("guest-1", p.secret)
	p.t.Cleanup(func() {
		// Politely first, so that no command outlives the test.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if c.Shutdown(ctx) != nil {
			_ = cmd.Process.Kill()
		}
		stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
		defer stop()
		_ = cmd.Wait()
		if p.t.Failed() {
			p.t.Logf("guest: %s", log)
		}
	})
	eventually(p.t, func() error {
		_, err := c.Hello(p.t.Context())
		return err
	})
	return c
}

func (p *place) client(id string, secret []byte) *client.Client {
	o := client.Options{GuestID: id, Dial: func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", p.cfg.Socket)
	}}
	if secret != nil {
		o.Key = client.DeriveKey(secret, p.cfg.GuestID)
	}
	c := client.New(o)
	p.t.Cleanup(func() { c.Close() })
	return c
}

// kill ends the guest as a crash does.
func (p *place) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait()
}

func shell(script string) execenv.Command {
	return execenv.Command{Argv: []string{"/bin/sh", "-c", script}}
}

// sh runs a script that is expected to run at all.
func sh(t testing.TB, c *client.Client, script string) execenv.Outcome {
	t.Helper()
	o, err := c.Run(t.Context(), execenv.Caller{}, shell(script), nil)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return o
}

func text(c execenv.Captured) string { return string(c.Head) + string(c.Tail) }

// naps counts the numbers that naptime has given.
var naps atomic.Int64

// naptime is a number of seconds that no other process of this machine sleeps for.
func naptime() string {
	return fmt.Sprintf("9%07d%02d", os.Getpid(), naps.Add(1)%100)
}

// tagged finds the host's processes whose command line has all words.
func tagged(words ...string) (pids []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
next:
	for _, d := range dirs {
		line, err := os.ReadFile(d)
		if err != nil {
			continue
		}
		for _, w := range words {
			if !strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), w) {
				continue next
			}
		}
		pids = append(pids, filepath.Base(filepath.Dir(d)))
	}
	return pids
}
