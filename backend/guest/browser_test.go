//go:build linux

package guest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// browserWalls are the walls as far as they change how a browser is started.
var browserWalls = map[string][]func(*place){
	"group": {asInDocker},
	"uts":   {uts, withNamespace},
}

func TestBrowser_startsOnDemandAsTheUser(t *testing.T) {
	needChromium(t)
	for name, change := range browserWalls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, change...)
			c := p.start()
			before, err := c.BrowserStatus(t.Context())
			if err != nil || before.State != wire.BrowserStopped || before.Program == "" || before.PID != 0 || before.LastEnd != nil {
				t.Fatalf("before: %+v, %v", before, err)
			}
			d := openCDP(t, c)
			session := d.page()
			if got := d.visit(session, "data:text/html,<title>hello</title>"); got != "" {
				t.Fatal(got)
			}
			if got := d.eval(session, "document.title"); got != "hello" {
				t.Errorf("title = %q", got)
			}
			now, err := c.BrowserStatus(t.Context())
			if err != nil || now.State != wire.BrowserRunning || !strings.HasPrefix(now.Version, "Chrome/") || now.Since == nil || now.Clients != 1 {
				t.Errorf("while it runs: %+v, %v", now, err)
			}
			if now.Sandboxed == (now.Unsandboxed != "") {
				t.Errorf("sandboxed %v, because %q", now.Sandboxed, now.Unsandboxed)
			}
			uid := 1234
			if p.cfg.Tag == wire.TagUTS {
				uid = 0
			}
			processes := tagged(now.Profile)
			if len(processes) == 0 {
				t.Fatalf("no process with the profile %s", now.Profile)
			}
			for _, pid := range processes {
				if got := ownerOf(t, pid); got != uid && got != -1 {
					t.Errorf("process %s runs as %d, want %d", pid, got, uid)
				}
			}
			if s, err := c.Stats(t.Context()); err != nil || s.Processes != 0 {
				t.Errorf("a browser counts as %d processes of commands, %v", s.Processes, err)
			}
			after, err := c.BrowserStop(t.Context())
			if err != nil || after.State != wire.BrowserStopped || after.LastEnd == nil || after.LastEnd.Cause != wire.BrowserEndStop || len(after.LastEnd.Kill.Left) != 0 {
				t.Errorf("after the stop: %+v, %v", after, err)
			}
			if left := tagged(now.Profile); len(left) != 0 {
				t.Errorf("left of it: %v", left)
			}
			var closed websocket.CloseError
			if err := d.end(); !errors.As(err, &closed) || closed.Code != websocket.StatusGoingAway || !strings.Contains(closed.Reason, "stop") {
				t.Errorf("its client was told %v", err)
			}
			if again, err := c.BrowserStop(t.Context()); err != nil || again.State != wire.BrowserStopped {
				t.Errorf("a second stop: %+v, %v", again, err)
			}
		})
	}
}

// TestBrowser_serves is about one browser that runs all the time.
func TestBrowser_serves(t *testing.T) {
	needChromium(t)
	p := newPlace(t, asInDocker, withRelay)
	c := p.start()
	for _, story := range []struct {
		name string
		test func(*testing.T, *client.Client)
	}{
		{"leaves by the relay alone", leavesByTheRelayAlone},
		{"what is typed and fails asks nobody", typingAsksNobody},
		{"clients are apart", clientsAreApart},
		{"pop-ups wait for their client", popUpsWait},
		{"big messages", bigMessages},
		{"a slow client is dropped", dropsASlowClient},
		{"what is no command", refusesWhatIsNoCommand},
		{"the last tab", keepsATab},
		{"downloads", downloadsWhereItSays},
		{"a dialog that nobody sees", dialogThatNobodySees},
	} {
		t.Run(story.name, func(t *testing.T) { story.test(t, c) })
		// One story's connections are over before the next one counts them.
		eventually(t, func() error {
			if s, err := c.BrowserStatus(t.Context()); err != nil || s.Clients != 0 {
				return fmt.Errorf("%d clients, %w", s.Clients, err)
			}
			return nil
		})
	}
	if s, err := c.BrowserStatus(t.Context()); err != nil || s.LastEnd != nil {
		t.Errorf("it has ended meanwhile: %+v, %v", s.LastEnd, err)
	}
}

func ownerOf(t *testing.T, pid string) int {
	t.Helper()
	info, err := os.Stat("/proc/" + pid)
	if err != nil {
		return -1 // it has ended
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}

func TestBrowser_endsWithTheGuest(t *testing.T) {
	needChromium(t)
	p := newPlace(t, asInDocker)
	c := p.start()
	b, err := c.BrowserStart(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(tagged(b.Profile)) == 0 {
		t.Fatal("no process of the browser")
	}
	if err := c.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if left := tagged(b.Profile); len(left) != 0 {
		t.Errorf("left of it: %v", left)
	}
}

func TestBrowser_leavesNothingWhereItIsAGuest(t *testing.T) {
	needChromium(t)
	p := newPlace(t, asInDocker, func(p *place) { p.cfg.Adopted = true })
	c := p.start()
	before, err := os.ReadDir(p.cfg.Home)
	if err != nil {
		t.Fatal(err)
	}
	d := openCDP(t, c)
	if got := d.visit(d.page(), "data:text/html,<title>hello</title>"); got != "" {
		t.Error(got)
	}
	b, err := c.BrowserStatus(t.Context())
	if err != nil || filepath.Dir(filepath.Dir(b.Profile)) != "/tmp" || filepath.Dir(b.Profile) != filepath.Dir(b.Downloads) {
		t.Errorf("status %+v, %v", b, err)
	}
	if after, err := os.ReadDir(p.cfg.Home); err != nil || len(after) != len(before) {
		t.Errorf("its HOME has %v, %v", after, err)
	}
	if err := c.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(b.Profile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", filepath.Dir(b.Profile), err)
	}
}

func TestBrowser_comesBackAfterACrash(t *testing.T) {
	needChromium(t)
	p := newPlace(t, asInDocker)
	c := p.start()
	d := openCDP(t, c)
	first, err := c.BrowserStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sh := sh(t, c, "kill -9 "+strconv.Itoa(first.PID))
	if sh.ExitCode != 0 {
		t.Fatalf("kill: %s", text(sh.Stderr))
	}
	var closed websocket.CloseError
	if err := d.end(); !errors.As(err, &closed) || closed.Code != websocket.StatusGoingAway || !strings.Contains(closed.Reason, "killed") {
		t.Errorf("its client was told %v", err)
	}
	d = openCDP(t, c)
	if got := d.eval(d.page(), "1+1"); got != "2" {
		t.Errorf("1+1 = %s", got)
	}
	second, err := c.BrowserStatus(t.Context())
	if err != nil || second.PID == first.PID || second.LastEnd == nil || second.LastEnd.Cause != wire.BrowserEndCrash {
		t.Errorf("after the crash: %+v, %v", second, err)
	}
	// A client may end it too, and nothing is left then either.
	d.call("", "Browser.close", "{}", nil)
	eventually(t, func() error {
		if b, err := c.BrowserStatus(t.Context()); err != nil || b.State != wire.BrowserStopped || b.LastEnd.Cause != wire.BrowserEndStop {
			return fmt.Errorf("%+v, %w", b, err)
		}
		return nil
	})
	if left := tagged(second.Profile); len(left) != 0 {
		t.Errorf("left of it: %v", left)
	}
}

// Where nothing leaves by a relay the browser has no script of ours in its pages; what
// it does for those whom nobody looks at it does all the same.
func TestBrowser_withoutARelay(t *testing.T) {
	needChromium(t)
	c := newPlace(t, asInDocker).start()
	dialogThatNobodySees(t, c)
	keepsATab(t, c)
}

func TestBrowser_profileOfADeadOneIsFreed(t *testing.T) {
	needChromium(t)
	p := newPlace(t, asInDocker)
	c := p.start()
	b, err := c.BrowserStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(b.Profile, "SingletonLock")
	hello, err := c.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, owner := range map[string]string{
		"another host":          "elsewhere-1",
		"this host, no browser": hello.Hostname + "-1",
	} {
		if o := sh(t, c, fmt.Sprintf("mkdir -p %s && ln -sfn %s %s", b.Profile, owner, lock)); o.ExitCode != 0 {
			t.Fatal(text(o.Stderr))
		}
		if _, err := c.BrowserStart(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := os.Readlink(lock); got == owner {
			t.Errorf("%s: the lock is still there", name)
		}
		if _, err := c.BrowserStop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestBrowser_profileOfALiveOneIsLeft(t *testing.T) {
	needChromium(t)
	p := newPlace(t, asInDocker)
	c := p.start()
	b, err := c.BrowserStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// One that was started by hand with the profile, as far as anybody can tell.
	o := sh(t, c, fmt.Sprintf(`mkdir -p %[1]s; sh -c 'sleep 1000; :' sh --user-data-dir=%[1]s >/dev/null 2>&1 & echo $!; ln -sfn $(hostname)-$! %[1]s/SingletonLock`, b.Profile))
	pid := strings.TrimSpace(text(o.Stdout))
	_, err = c.BrowserStart(t.Context())
	if !errors.Is(err, execenv.ErrBusy) || !strings.Contains(err.Error(), pid) {
		t.Errorf("with a live one (%s): %v", pid, err)
	}
	if s, err := c.BrowserStatus(t.Context()); err != nil || s.State != wire.BrowserStopped || !strings.Contains(s.Error, pid) {
		t.Errorf("status: %+v, %v", s, err)
	}
	sh(t, c, "kill "+pid)
	eventually(t, func() error {
		_, err := c.BrowserStart(t.Context())
		return err
	})

	// And of another sandbox that has the same HOME mounted.
	other := newPlace(t, asInDocker, func(q *place) { q.cfg.Home = p.cfg.Home })
	if _, err := other.start().BrowserStart(t.Context()); !errors.Is(err, execenv.ErrBusy) {
		t.Errorf("a profile that two sandboxes have: %v", err)
	}
}

func TestBrowser_none(t *testing.T) {
	p := newPlace(t, asInDocker, func(p *place) { p.cfg.Env = []string{"PATH=/nowhere"} })
	c := p.start()
	s, err := c.BrowserStatus(t.Context())
	if err != nil || s.State != wire.BrowserNone || !strings.Contains(s.Error, "google-chrome-stable") || !strings.Contains(s.Error, "glovebox image build") {
		t.Errorf("status: %+v, %v", s, err)
	}
	if _, err := c.BrowserStart(t.Context()); !errors.Is(err, execenv.ErrNoBrowser) {
		t.Errorf("start: %v", err)
	}
	if _, err := c.CDP(t.Context()); !errors.Is(err, execenv.ErrNoBrowser) || !strings.Contains(err.Error(), "chromium-browser") {
		t.Errorf("a client: %v", err)
	}
}

func TestBrowser_thatDoesNotStart(t *testing.T) {
	p := newPlace(t, asInDocker, func(p *place) { p.cfg.Env = []string{"PATH=" + filepath.Dir(p.cfg.Socket) + "/bin:/usr/bin:/bin"} })
	program := filepath.Join(filepath.Dir(p.cfg.Socket), "bin", "chromium")
	if err := os.Mkdir(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\nsleep 1487 &\necho a library is missing >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := p.start()
	_, err := c.BrowserStart(t.Context())
	if !errors.Is(err, execenv.ErrBrowser) || !strings.Contains(err.Error(), "exit status 3: a library is missing") {
		t.Errorf("start: %v", err)
	}
	if s, _ := c.BrowserStatus(t.Context()); !strings.Contains(s.Error, "a library is missing") {
		t.Errorf("status: %+v", s)
	}
	if o := sh(t, c, "pgrep -f 'slee[p] 1487'"); o.ExitCode == 0 {
		t.Errorf("left of it: %s", text(o.Stdout))
	}
}
