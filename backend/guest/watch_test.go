//go:build linux

package guest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/client"
)

// watch begins a watch and waits for its first report, or its error.
func watch(t *testing.T, c *client.Client, dirs ...string) (reports <-chan []string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := make(chan []string, 100), make(chan error, 1) // more than a test causes
	go func() {
		ended <- c.Watch(ctx, execenv.Caller{}, dirs, func(dirs []string) { out <- dirs })
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		ended <- nil
	})
	select {
	case <-out:
		return out, nil
	case err := <-ended:
		ended <- nil
		return nil, err
	case <-time.After(20 * time.Second):
		t.Fatal("the watch neither holds nor fails")
		return nil, nil
	}
}

func TestWatch_hasTheUsersRights(t *testing.T) {
	for name, change := range walls {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, change...)
			c := p.start()
			foreign, inner := filepath.Join(p.cfg.Workdir, "foreign"), filepath.Join(p.cfg.Workdir, "foreign/inner")
			open, link := filepath.Join(p.cfg.Workdir, "open"), filepath.Join(p.cfg.Workdir, "link")
			if err := errors.Join(os.MkdirAll(inner, 0o755), os.Mkdir(open, 0o755), os.Symlink(foreign, link),
				os.Chmod(foreign, 0o700), os.Chown(foreign, 4321, 4321)); err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{foreign, inner, link} {
				if _, err := watch(t, c, dir); !errors.Is(err, execenv.ErrPermission) {
					t.Errorf("watch %s: %v, want ErrPermission", dir, err)
				}
			}
			// Its own process is closed to file requests, and so to this one.
			if _, err := watch(t, c, "/proc/self/fd"); !errors.Is(err, execenv.ErrPermission) {
				t.Errorf("watch the guest's descriptors: %v", err)
			}
			reports, err := watch(t, c, p.cfg.Workdir, open)
			if err != nil {
				t.Fatal(err)
			}
			sh(t, c, "rmdir open; ln -s foreign open") // now a directory that may not be read
			for seen := false; !seen; {
				seen = slices.Contains(<-reports, open)
			}
			if err := os.WriteFile(filepath.Join(foreign, "x"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			sh(t, c, "echo > mark")
			for seen := false; !seen; {
				dirs := <-reports
				seen = slices.Contains(dirs, p.cfg.Workdir)
				if slices.Contains(dirs, open) {
					t.Errorf("a change in another's directory was told: %q", dirs)
				}
			}
		})
	}
}

func TestWatch_endsWithTheGuest(t *testing.T) {
	p := newPlace(t)
	c := p.start()
	ended := make(chan error, 1)
	held := make(chan struct{})
	go func() {
		ended <- c.Watch(t.Context(), execenv.Caller{}, []string{p.cfg.Workdir}, func([]string) { close(held) })
	}()
	<-held
	p.kill()
	select {
	case err := <-ended:
		if !errors.Is(err, execenv.ErrUnreachable) {
			t.Errorf("Watch() = %v, want ErrUnreachable", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("a watch outlives its guest")
	}
}
