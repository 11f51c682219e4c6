//go:build linux

package guest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

func TestFiles_haveTheUsersRights(t *testing.T) {
	for name, change := range walls {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, change...)
			c := p.start()
			h, err := c.Hello(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			secret := filepath.Join(p.cfg.Workdir, "secret")
			foreign := filepath.Join(p.cfg.Workdir, "foreign")
			if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(foreign, 0o700); err != nil {
				t.Fatal(err)
			}
			owner := 4321 // whom even a root without capabilities may not read
			if err := errors.Join(os.Chown(secret, owner, owner), os.Chown(foreign, owner, owner)); err != nil {
				t.Fatal(err)
			}
			person := execenv.Caller{}
			if _, err := c.ReadFile(t.Context(), person, execenv.ReadRequest{Path: secret}); !errors.Is(err, execenv.ErrPermission) {
				t.Errorf("read another's file: %v", err)
			}
			if _, err := c.List(t.Context(), person, foreign); !errors.Is(err, execenv.ErrPermission) {
				t.Errorf("list another's directory: %v", err)
			}
			if r, err := c.Grep(t.Context(), person, execenv.GrepRequest{Pattern: "x", Path: p.cfg.Workdir, All: true, Mode: execenv.GrepFiles}); err == nil && len(r.Rows) > 0 {
				t.Errorf("grep found %v", r.Rows)
			}
			if o := sh(t, c, "cat secret; ls foreign"); strings.Count(text(o.Stderr), "ermission denied") != 2 {
				t.Errorf("a command: %q", text(o.Stderr))
			}
			mine := filepath.Join(p.cfg.Workdir, "mine")
			if _, err := c.WriteFile(t.Context(), person, execenv.WriteRequest{Path: mine, Data: []byte("y"), Mode: execenv.WriteOverwrite}); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(mine)
			if err != nil {
				t.Fatal(err)
			}
			if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != h.UID || int(st.Gid) != h.GID {
				t.Errorf("the new file belongs to %d:%d, commands run as %d:%d", st.Uid, st.Gid, h.UID, h.GID)
			}
			if r, err := c.ReadFile(t.Context(), person, execenv.ReadRequest{Path: mine}); err != nil || string(r.Data) != "y" {
				t.Errorf("read it back: %q, %v", r.Data, err)
			}
		})
	}
}

func TestFiles_doNotReachTheGuestOrTheKernel(t *testing.T) {
	p := newPlace(t, withNamespace)
	c := p.start()
	person := execenv.Caller{}
	for _, path := range []string{"/proc/self/environ", "/proc/thread-self/maps", "/proc/1/environ", "/proc/1/mem", "/proc/1/task/1/environ"} {
		if _, err := c.ReadFile(t.Context(), person, execenv.ReadRequest{Path: path, MaxBytes: 10}); err == nil {
			t.Errorf("%s was read", path)
		}
	}
	link := filepath.Join(p.cfg.Workdir, "link")
	if err := os.Symlink("/proc/self", link); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadFile(t.Context(), person, execenv.ReadRequest{Path: link + "/environ", MaxBytes: 10}); err == nil {
		t.Error("a link to /proc/self was followed")
	}
	if _, err := c.List(t.Context(), person, link+"/fd"); err == nil {
		t.Error("the guest's descriptors were listed")
	}
	// A link of a descriptor is followed by its text, with the user's rights.
	for fd := 3; fd < 30; fd++ {
		r, err := c.ReadFile(t.Context(), person, execenv.ReadRequest{Path: fmt.Sprintf("/dev/fd/%d", fd), MaxBytes: 100})
		if err == nil && !strings.HasPrefix(r.Info.Path, "/dev/fd") || strings.Contains(string(r.Data), "started") {
			t.Errorf("descriptor %d of the guest was read: %q", fd, r.Data)
		}
	}
	for tid := 1; tid < 30; tid++ {
		if _, err := c.ReadFile(t.Context(), person, execenv.ReadRequest{Path: fmt.Sprintf("/proc/%d/environ", tid), MaxBytes: 10}); err == nil {
			t.Errorf("thread %d of the guest was read", tid)
		}
	}
	for _, path := range []string{"/proc/sys/kernel/hostname", "/proc/1/oom_score_adj", "/sys/kernel/profiling", "/dev/null"} {
		_, err := c.WriteFile(t.Context(), person, execenv.WriteRequest{Path: path, Data: []byte("0"), Mode: execenv.WriteOverwrite})
		if err == nil {
			t.Errorf("%s was written", path)
		}
	}
}

func TestRootByChoiceCanInstallPackages(t *testing.T) {
	p := newPlace(t)
	p.cfg.User = "root"
	c := p.start()
	o := sh(t, c, "touch f && chown 1:1 f && chmod 600 f && cat f && id -u && grep CapEff /proc/self/status")
	if o.ExitCode != 0 || !strings.HasPrefix(text(o.Stdout), "0\n") || !strings.Contains(text(o.Stdout), "000000000000001b") {
		t.Errorf("%q %q", text(o.Stdout), text(o.Stderr))
	}
	if h, err := c.Hello(t.Context()); err != nil || !h.BestEffort {
		t.Errorf("root can reach the guest, which Hello must say: %+v, %v", h, err)
	}
}

func TestFiles_workspaceMissing(t *testing.T) {
	p := newPlace(t)
	c := p.start()
	if err := os.RemoveAll(p.cfg.Workdir); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(p.cfg.Workdir, "file")
	_, read := c.ReadFile(t.Context(), execenv.Caller{}, execenv.ReadRequest{Path: inside})
	_, glob := c.Glob(t.Context(), execenv.Caller{}, execenv.GlobRequest{Pattern: "*", Base: p.cfg.Workdir})
	for what, err := range map[string]error{"read": read, "glob": glob} {
		if !errors.Is(err, execenv.ErrWorkdirGone) {
			t.Errorf("%s: %v, want that the workspace is missing", what, err)
		}
	}
	if _, err := c.ReadFile(t.Context(), execenv.Caller{}, execenv.ReadRequest{Path: "/no/such/file"}); !errors.Is(err, execenv.ErrNotFound) {
		t.Errorf("a path elsewhere: %v", err)
	}
}
