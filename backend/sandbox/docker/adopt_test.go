package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// stranger starts a container that nobody of this program made.
func stranger(t *testing.T, p *Provider, edit func(*container.Config, *container.HostConfig)) string {
	t.Helper()
	config := &container.Config{Image: p.opts.DefaultImage, Entrypoint: []string{"sleep", "600"}, WorkingDir: "/tmp"}
	host := &container.HostConfig{NetworkMode: "none"}
	if edit != nil {
		edit(config, host)
	}
	created, err := p.engine.ContainerCreate(t.Context(), config, host, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := p.engine.ContainerRemove(context.WithoutCancel(t.Context()), created.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil {
			t.Error(err)
		}
	})
	if err := p.engine.ContainerStart(t.Context(), created.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	for strings.Contains(found(t, p, created.ID), "process runc") { // the engine says so before it is
	}
	return created.ID
}

// found is what a container is, to compare before and after.
func found(t *testing.T, p *Provider, id string) string {
	t.Helper()
	changes, err := p.engine.ContainerDiff(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range changes {
		if strings.HasPrefix(c.Path, insideDir+"/") {
			continue // where the engine mounts what a container of ours has, to copy into it
		}
		lines = append(lines, c.Kind.String()+" "+c.Path)
	}
	slices.Sort(lines)
	top, err := p.engine.ContainerTop(t.Context(), id, []string{"-eo", "pid,args"})
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range top.Processes {
		lines = append(lines, "process "+strings.Join(process[1:], " "))
	}
	return strings.Join(lines, "\n")
}

func mustAdopt(t *testing.T, p *Provider, root, id string) sandbox.Handle {
	t.Helper()
	h, err := p.Adopt(t.Context(), root, sandbox.Spec{Wall: sandbox.WallDocker, Adopt: id}, nil)
	if err != nil {
		t.Fatalf("Adopt = %v", err)
	}
	return h
}

// bare makes an image that holds one program and no shell.
func bare(t *testing.T, p *Provider) string {
	t.Helper()
	path, err := staticBusybox()
	if err != nil {
		t.Skip(err)
	}
	busybox, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	w := &treeWriter{w: tar.NewWriter(&archive)}
	w.entry(&tar.Header{Typeflag: tar.TypeReg, Name: "sleep", Mode: 0o755, Size: int64(len(busybox))}, busybox)
	if err := errors.Join(w.err, w.w.Close()); err != nil {
		t.Fatal(err)
	}
	ref := "glovebox/test-bare-" + newGuestID()[:10]
	answer, err := p.engine.ImageImport(t.Context(), image.ImportSource{Source: &archive, SourceName: "-"}, ref, image.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	if err := importResult(answer); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := p.engine.ImageRemove(context.WithoutCancel(t.Context()), ref, image.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	return ref
}

// A guest lives in whatever container there is, and leaves it as it was found.
func TestAdopt(t *testing.T) {
	p := ownProvider(t)
	noShell := bare(t, p)
	for _, test := range []struct {
		name string
		edit func(*container.Config, *container.HostConfig)
		uid  string
		note string // of the description
	}{
		{name: "of root", uid: "0", note: "commands run as root"},
		{name: "of an ordinary user", uid: "1000", edit: func(c *container.Config, _ *container.HostConfig) { c.User = "1000:1000" }},
		{name: "of a named user", uid: "0", edit: func(c *container.Config, _ *container.HostConfig) { c.User = "root" }},
		{name: "without capabilities", uid: "0", note: "it lacks SETUID", edit: func(_ *container.Config, h *container.HostConfig) {
			h.CapDrop, h.SecurityOpt = []string{"ALL"}, []string{"no-new-privileges"}
		}},
		{name: "without capabilities, of an ordinary user", uid: "1000", note: "it lacks SETUID", edit: func(c *container.Config, h *container.HostConfig) {
			c.User, h.CapDrop = "1000:1000", []string{"ALL"}
		}},
		{name: "read-only, with a tmpfs", uid: "0", edit: func(_ *container.Config, h *container.HostConfig) {
			h.ReadonlyRootfs, h.Tmpfs = true, map[string]string{"/tmp": "exec,size=64m"}
		}},
		{name: "read-only, with a volume", uid: "0", edit: func(_ *container.Config, h *container.HostConfig) {
			h.ReadonlyRootfs, h.Mounts = true, []mount.Mount{{Type: mount.TypeVolume, Target: "/data"}}
		}},
		{name: "without a shell", edit: func(c *container.Config, _ *container.HostConfig) {
			c.Image, c.Entrypoint, c.WorkingDir = noShell, []string{"/sleep", "600"}, ""
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			id := stranger(t, p, test.edit)
			before := found(t, p, id)
			h := mustAdopt(t, p, "root", id)
			t.Cleanup(func() { p.Release(context.WithoutCancel(t.Context()), "root") })
			if test.uid != "" {
				if got, code := run(t, p, h, "id -u; pwd"); code != 0 || got != test.uid+"\n/tmp" {
					t.Errorf("a command says %q, code %d", got, code)
				}
				run(t, p, h, "(sleep 321 &) ; echo on >/dev/null")
			}
			c := p.guestClient(h)
			defer c.Close()
			if _, err := c.List(t.Context(), execenv.Caller{}, "/"); err != nil {
				t.Errorf("list / = %v", err)
			}
			if during := found(t, p, id); during == before {
				t.Error("a guest that leaves no trace while it is there; the comparison sees nothing")
			}
			d, err := p.Describe(t.Context(), refOf(t, h))
			if err != nil || !strings.Contains(strings.Join(d.Notes, "\n"), test.note) || !strings.Contains(strings.Join(d.Notes, "\n"), "what was changed in it stays") {
				t.Errorf("Describe = %+v, %v", d, err)
			}
			if seen, err := p.Inspect(t.Context(), refOf(t, h)); err != nil || seen.Value != sandbox.StateReady {
				t.Errorf("Inspect = %+v, %v", seen, err)
			}
			if err := p.Release(t.Context(), "root"); err != nil {
				t.Fatalf("Release = %v", err)
			}
			if after := found(t, p, id); after != before {
				t.Errorf("it was\n%s\nand is now\n%s", before, after)
			}
			if _, err := p.Attach(t.Context(), refOf(t, h)); !errors.Is(err, sandbox.ErrGone) {
				t.Errorf("Attach after the release = %v", err)
			}
			if err := p.Release(t.Context(), "root"); err != nil {
				t.Errorf("a second Release = %v", err)
			}
		})
	}
}

// What is in the way is said, with what to do about it, and nothing is left.
func TestAdopt_says(t *testing.T) {
	p := ownProvider(t)
	for _, test := range []struct {
		name string
		edit func(*container.Config, *container.HostConfig)
		then func(*testing.T, string)
		want error
		says string
	}{
		{name: "paused", want: sandbox.ErrStopped, says: "docker unpause", then: func(t *testing.T, id string) {
			if err := p.engine.ContainerPause(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "stopped", want: sandbox.ErrStopped, says: "docker start", then: func(t *testing.T, id string) {
			if err := p.engine.ContainerKill(t.Context(), id, "KILL"); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "read-only", want: sandbox.ErrUnsupported, says: "nothing writable is mounted", edit: func(_ *container.Config, h *container.HostConfig) {
			h.ReadonlyRootfs = true
		}},
		{name: "read-only, with a tmpfs that executes nothing", want: sandbox.ErrUnsupported, says: "--tmpfs /run/glovebox:exec", edit: func(_ *container.Config, h *container.HostConfig) {
			h.ReadonlyRootfs, h.Tmpfs = true, map[string]string{"/tmp": ""}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			id := stranger(t, p, test.edit)
			if test.then != nil {
				test.then(t, id)
			}
			_, err := p.Adopt(t.Context(), "root", sandbox.Spec{Adopt: id}, nil)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "the sandbox is stopped") {
				t.Errorf("Adopt = %v; want %v that says %q", err, test.want, test.says)
			}
			if left := leftOf(t, p); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
	if _, err := p.Resolve(t.Context(), "glovebox-none-of-that-name"); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("Resolve = %v", err)
	}
}

// Two instances on one engine do not enter each other's containers.
func TestAdopt_anothersContainer(t *testing.T) {
	p := ownProvider(t)
	id := stranger(t, p, func(c *container.Config, _ *container.HostConfig) {
		c.Labels = map[string]string{labelInstance: "another", labelSession: "s-there"}
	})
	if _, err := p.Resolve(t.Context(), id); !errors.Is(err, sandbox.ErrForeign) || !strings.Contains(err.Error(), "another glovebox") {
		t.Errorf("Resolve = %v, want it foreign", err)
	}
	if _, err := p.Adopt(t.Context(), "root", sandbox.Spec{Adopt: id}, nil); !errors.Is(err, sandbox.ErrForeign) {
		t.Errorf("Adopt = %v, want it foreign", err)
	}
	if left := leftOf(t, p); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// Two sessions share a container, one of them ours: neither sees nor ends what
// the other has, and its release leaves the other as it was.
func TestAdopt_shared(t *testing.T) {
	p := ownProvider(t)
	ours := mustAllocate(t, p, sandbox.Spec{Workspace: t.TempDir()})
	for name, id := range map[string]string{"a stranger's": stranger(t, p, nil), "ours": ours.SandboxID} {
		t.Run(name, func(t *testing.T) {
			before := found(t, p, id)
			a, b := mustAdopt(t, p, "root-a", id), mustAdopt(t, p, "root-b", id)
			t.Cleanup(func() {
				for _, root := range []string{"root-a", "root-b"} {
					if err := p.Release(context.WithoutCancel(t.Context()), root); err != nil {
						t.Error(err)
					}
				}
			})
			host, _ := run(t, p, a, "hostname")
			if other, _ := run(t, p, b, "hostname"); other != host || host != id[:12] {
				t.Errorf("hostnames %q and %q in %s", host, other, id[:12])
			}
			if text, code := run(t, p, a, "(sleep 4321 &); echo begun"); code != 0 {
				t.Fatal(text)
			}
			run(t, p, b, "(sleep 1234 &); echo begun")
			if err := p.Release(t.Context(), "root-b"); err != nil {
				t.Fatal(err)
			}
			if text, code := run(t, p, a, "ps | grep -c '[s]leep 4321'; ps | grep -c '[s]leep 1234'"); text != "1\n0" {
				t.Errorf("after the other's release: %q, %d", text, code)
			}
			if err := p.Release(t.Context(), "root-a"); err != nil {
				t.Fatal(err)
			}
			if after := found(t, p, id); after != before {
				t.Errorf("it was\n%s\nand is now\n%s", before, after)
			}
		})
	}
	if got, code := run(t, p, ours, "echo on"); got != "on" {
		t.Errorf("our own container after all: %q, %d", got, code)
	}
}

// The guest is found again by another process, comes back after a restart of its
// container, and leaves one that cannot be entered when that can.
func TestAdopt_life(t *testing.T) {
	p := ownProvider(t)
	id := stranger(t, p, func(_ *container.Config, h *container.HostConfig) { h.Init = new(bool) })
	before := found(t, p, id)
	h := mustAdopt(t, p, "root", id)
	run(t, p, h, "echo kept >/tmp/m")

	again := newProvider(t, p.opts.DataDir, p.opts.Instance)
	h2, err := again.Attach(t.Context(), refOf(t, h))
	if err != nil || h2.GuestID != h.GuestID {
		t.Fatalf("Attach by another process = %+v, %v", h2, err)
	}
	one := 1
	if err := p.engine.ContainerRestart(t.Context(), id, container.StopOptions{Timeout: &one}); err != nil {
		t.Fatal(err)
	}
	if h, err = p.Attach(t.Context(), refOf(t, h)); err != nil {
		t.Fatalf("Attach after a restart = %v", err)
	}
	if got, _ := run(t, p, h, "cat /tmp/m; rm /tmp/m"); got != "kept" {
		t.Errorf("after a restart: %q", got)
	}
	list, err := p.List(t.Context())
	if err != nil || len(list) != 1 || list[0].RootTaskID != "root" || list[0].Condition.Value != sandbox.StateReady {
		t.Errorf("List = %+v, %v", list, err)
	}

	if err := p.engine.ContainerPause(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := p.Release(t.Context(), "root"); err != nil {
		t.Fatalf("Release of a paused one = %v", err)
	}
	if list, err := p.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("List after the release = %+v, %v", list, err)
	}
	if err := p.engine.ContainerUnpause(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := p.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := found(t, p, id); after != before {
		t.Errorf("it was\n%s\nand is now\n%s", before, after)
	}
}

// Every container is shown with whose it is, and changes are told.
func TestPlaces(t *testing.T) {
	p := ownProvider(t)
	ours := mustAllocate(t, p, sandbox.Spec{Workspace: t.TempDir()})
	id := stranger(t, p, nil)
	mustAdopt(t, p, "root-a", id)
	t.Cleanup(func() { p.Release(context.WithoutCancel(t.Context()), "root-a") })
	place := func(id string) sandbox.Place {
		t.Helper()
		all, err := p.Places(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(pl sandbox.Place) bool { return pl.ID == id })
		if i < 0 {
			t.Fatalf("%s is not among %d containers", id[:12], len(all))
		}
		if all[i].Condition.ObservedAt.IsZero() || all[i].Name == "" || all[i].Image == "" || all[i].CreatedAt.IsZero() {
			t.Errorf("a container is shown as %+v", all[i])
		}
		return all[i]
	}
	if got := place(ours.SandboxID); got.RootTaskID != "root" || got.Instance != p.opts.Instance || len(got.Adopted) != 0 {
		t.Errorf("ours = %+v", got)
	}
	if got := place(id); got.RootTaskID != "" || got.Instance != "" || !slices.Equal(got.Adopted, []string{"root-a"}) {
		t.Errorf("a stranger's = %+v", got)
	}

	ctx, cancel := context.WithCancel(t.Context())
	changed, done := make(chan struct{}, 1), make(chan struct{}, 2)
	go func() { p.Watch(ctx, func(sandbox.Change) {}, func() {}); done <- struct{}{} }()
	go func() {
		p.Changes(ctx, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
		done <- struct{}{}
	}()
	defer func() { cancel(); <-done; <-done }()
	until := func(what string, ok func() bool) {
		t.Helper()
		late := time.After(30 * time.Second)
		for !ok() {
			select {
			case <-changed:
			case <-late:
				t.Fatalf("no word of a container that was %s", what)
			}
		}
	}
	<-changed // the first connection
	if err := p.StopPlace(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	until("stopped", func() bool { return place(id).Condition.Value == sandbox.StateStopped })
	if err := p.StartPlace(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	until("started", func() bool { return place(id).Condition.Value == sandbox.StateReady })
	if err := p.RemovePlace(t.Context(), id); !errors.Is(err, sandbox.ErrForeign) {
		t.Errorf("RemovePlace of a stranger's = %v", err)
	}
}
