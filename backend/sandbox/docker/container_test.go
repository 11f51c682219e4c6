package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// derive makes an image out of the tiny one by Dockerfile instructions.
func derive(t *testing.T, p *Provider, changes ...string) string {
	t.Helper()
	ref := "glovebox/test-" + strings.ToLower(rand.Text()[:10])
	root, err := tinyRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answer, err := p.engine.ImageImport(t.Context(), image.ImportSource{Source: bytes.NewReader(root), SourceName: "-"}, ref, image.ImportOptions{
		Changes: append([]string{"ENV " + tinyPath}, changes...),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	if err := importResult(answer); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := p.Release(ctx, "root") // an image that is in use would only lose its name
		if err == nil {
			_, err = p.engine.ImageRemove(ctx, ref, image.RemoveOptions{})
		}
		if err != nil {
			t.Error(err)
		}
	})
	return ref
}

// run runs a script in a container and returns what it printed.
func run(t *testing.T, p *Provider, h sandbox.Handle, script string) (string, int) {
	t.Helper()
	c := p.guestClient(h)
	defer c.Close()
	outcome, err := c.Run(t.Context(), execenv.Caller{}, execenv.Command{
		Call: execenv.Call{ID: rand.Text()}, Argv: []string{"/bin/sh", "-c", script}, Timeout: 30 * time.Second,
	}, nil)
	if err != nil {
		t.Fatalf("run %q: %v", script, err)
	}
	return strings.TrimSpace(string(outcome.Stdout.Head) + string(outcome.Stderr.Head)), outcome.ExitCode
}

func mustAllocate(t *testing.T, p *Provider, spec sandbox.Spec) sandbox.Handle {
	t.Helper()
	h, err := p.Allocate(t.Context(), "root", spec)
	if err != nil {
		t.Fatalf("Allocate = %v", err)
	}
	return h
}

func mustInspect(t *testing.T, p *Provider, h sandbox.Handle) container.InspectResponse {
	t.Helper()
	c, err := p.engine.ContainerInspect(t.Context(), h.SandboxID)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAllocate_setsWhatWasAsked(t *testing.T) {
	p := ownProvider(t)
	h := mustAllocate(t, p, sandbox.Spec{
		Workspace: t.TempDir(),
		Workdir:   "/work",
		Resources: map[string]string{"memory": "512M", "cpus": "0.5", "pids": "100", "shm": "64m"},
	})
	c := mustInspect(t, p, h)
	hc := c.HostConfig
	if hc.Memory != 536870912 || hc.MemorySwap != hc.Memory || hc.NanoCPUs != 500000000 || *hc.PidsLimit != 100 || hc.ShmSize != 64<<20 {
		t.Errorf("limits = %d, %d, %d, %d, %d", hc.Memory, hc.MemorySwap, hc.NanoCPUs, *hc.PidsLimit, hc.ShmSize)
	}
	if hc.NetworkMode != "none" || hc.Privileged || hc.AutoRemove || hc.RestartPolicy.Name != "no" || len(hc.PortBindings) != 0 || len(hc.Binds) != 0 {
		t.Errorf("host configuration = %+v", hc)
	}
	if !slices.Equal(hc.CapDrop, []string{"ALL"}) || added(hc) != "KILL SETGID SETPCAP SETUID" || !slices.Contains(hc.SecurityOpt, "no-new-privileges") {
		t.Errorf("rights = drop %q, add %q, %q", hc.CapDrop, hc.CapAdd, hc.SecurityOpt)
	}
	if c.Config.Hostname != h.ShortID || h.Workdir != "/work" || c.Config.User != "0:0" {
		t.Errorf("hostname %q, short id %q, workdir %q, user %q", c.Config.Hostname, h.ShortID, h.Workdir, c.Config.User)
	}
	if want := p.name("root", 1); strings.TrimPrefix(c.Name, "/") != want {
		t.Errorf("name = %q, want %q", c.Name, want)
	}
	labels := map[string]string{labelInstance: p.opts.Instance, labelSession: "root", labelSandbox: h.GuestID, labelVersion: "test"}
	for key, want := range labels {
		if c.Config.Labels[key] != want {
			t.Errorf("label %s = %q, want %q", key, c.Config.Labels[key], want)
		}
	}
	d, err := p.Describe(t.Context(), refOf(t, h))
	if err != nil {
		t.Fatal(err)
	}
	if d.ShortID != h.ShortID || d.Limits["memory"] != "512m" || d.Limits["cpus"] != "0.5" || d.Limits["pids"] != "100" || d.Limits["shm"] != "64m" {
		t.Errorf("Describe = %+v", d)
	}
	if d.Network != "proxy" || d.User != "host" || d.StartedAt.IsZero() || d.Image != p.opts.DefaultImage || !strings.HasPrefix(d.ImageDigest, "sha256:") || len(d.Mounts) != 2 {
		t.Errorf("Describe = %+v", d)
	}
}

func TestDescribeMounts_haveOneOrder(t *testing.T) {
	point := func(target string) container.MountPoint {
		return container.MountPoint{Type: mount.TypeBind, Source: "/host" + target, Destination: target}
	}
	c := container.InspectResponse{Mounts: []container.MountPoint{point("/work"), point(insideDir), point("/a"), point("/data")}}
	var got []string
	for _, m := range describeMounts(c) {
		got = append(got, m.Target)
	}
	if want := []string{"/a", "/data", "/work"}; !slices.Equal(got, want) {
		t.Errorf("mounts at %q, want %q", got, want)
	}
}

// added are the capabilities that a container was given, as every engine
// spells them.
func added(hc *container.HostConfig) string {
	var names []string
	for _, name := range hc.CapAdd {
		names = append(names, strings.TrimPrefix(name, "CAP_"))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func refOf(t *testing.T, h sandbox.Handle) sandbox.Ref {
	t.Helper()
	r, err := h.Ref()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAllocate_findsAFreeName(t *testing.T) {
	p := ownProvider(t)
	stranger, err := p.engine.ContainerCreate(t.Context(), &container.Config{Image: p.opts.DefaultImage}, nil, nil, nil, p.name("root", 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.removeContainer(context.WithoutCancel(t.Context()), stranger.ID) })
	for _, want := range []string{p.name("root", 2), p.name("root", 3)} {
		h := mustAllocate(t, p, sandbox.Spec{Workspace: t.TempDir()})
		if got := strings.TrimPrefix(mustInspect(t, p, h).Name, "/"); got != want {
			t.Errorf("name = %q, want %q", got, want)
		}
	}
	if err := p.Release(t.Context(), "root"); err != nil { // both generations
		t.Fatal(err)
	}
	if _, err := p.engine.ContainerInspect(t.Context(), stranger.ID); err != nil {
		t.Errorf("Release took a stranger's container: %v", err)
	}
}

func TestAllocate_longDataDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("a long name ", 12))
	p := newProvider(t, dir, "test-"+strings.ToLower(rand.Text()[:10]))
	h := mustAllocate(t, p, sandbox.Spec{Workspace: t.TempDir()})
	if err := p.Release(t.Context(), "root"); err != nil {
		t.Error(err)
	}
	if left := leftOf(t, p); len(left) > 0 {
		t.Errorf("%s left %q", h.ShortID, left)
	}
}

func TestAllocate_refusesImages(t *testing.T) {
	p := ownProvider(t)
	for _, test := range []struct{ image, want string }{
		{"glovebox/never-built:1", "glovebox image build"},
		{"Not A Name", "Not A Name"},
	} {
		_, err := p.Allocate(t.Context(), "root", sandbox.Spec{Workspace: t.TempDir(), Image: test.image})
		var field *sandbox.FieldError
		if !errors.As(err, &field) || field.Field != "image" || !strings.Contains(field.Reason, test.want) {
			t.Errorf("Allocate on %q = %v, want a fault of image with %q", test.image, err, test.want)
		}
	}
}

func TestAllocate_users(t *testing.T) {
	p := ownProvider(t)
	for _, test := range []struct {
		name, user, image, want string
	}{
		{"root", "root", "", "0:0"},
		{"image without a user", "image", "", "0:0"},
		{"image by number", "image", derive(t, p, "USER 1234:4321"), "1234:4321"},
		{"image by name", "image", derive(t, p, "USER nobody"), "65534:65534"},
		{"image by name and group", "image", derive(t, p, "USER nobody:root"), "65534:0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			workspace := t.TempDir()
			if err := os.Chmod(workspace, 0o777); err != nil {
				t.Fatal(err)
			}
			h := mustAllocate(t, p, sandbox.Spec{Workspace: workspace, User: test.user, Image: test.image})
			if got, _ := run(t, p, h, `echo $(id -u):$(id -g) && cd "$HOME" && mkdir -p a/b && echo x > a/b/c && cd /workspace && echo x > f && rm f`); got != test.want {
				t.Errorf("user = %q, want %q", got, test.want)
			}
		})
	}
	_, err := p.Allocate(t.Context(), "root", sandbox.Spec{Workspace: t.TempDir(), User: "image", Image: derive(t, p, "USER nosuchuser")})
	var field *sandbox.FieldError
	if !errors.As(err, &field) || field.Field != "user" {
		t.Errorf("Allocate for a user that is not there = %v", err)
	}
}

func TestAllocate_passesVariables(t *testing.T) {
	p := ownProvider(t)
	h := mustAllocate(t, p, sandbox.Spec{
		Workspace: t.TempDir(),
		Image:     derive(t, p, "ENV FROM_IMAGE=1"),
		Env:       map[string]sandbox.EnvValue{"LITERAL": {Literal: "a b"}, "SECRET": {FromHost: "SOME_SECRET"}},
	})
	if got, _ := run(t, p, h, `echo "$FROM_IMAGE,$LITERAL,$SECRET"`); got != "1,a b," {
		t.Errorf("variables = %q", got)
	}
}

func TestRelease_removesAnonymousVolumes(t *testing.T) {
	p := ownProvider(t)
	h := mustAllocate(t, p, sandbox.Spec{Workspace: t.TempDir(), Image: derive(t, p, "VOLUME /data")})
	var name string
	for _, m := range mustInspect(t, p, h).Mounts {
		if m.Destination == "/data" {
			name = m.Name
		}
	}
	if name == "" {
		t.Fatal("no anonymous volume")
	}
	if err := p.Release(t.Context(), "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.engine.VolumeInspect(t.Context(), name); err == nil {
		t.Error("the anonymous volume is still there")
	}
}

func TestAllocate_namedVolume(t *testing.T) {
	p := ownProvider(t)
	v, err := p.engine.VolumeCreate(t.Context(), volume.CreateOptions{Labels: map[string]string{"glovebox.test": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(p.Release(ctx, "root"), p.engine.VolumeRemove(ctx, v.Name, true)); err != nil {
			t.Error(err)
		}
	})
	h := mustAllocate(t, p, sandbox.Spec{Workspace: t.TempDir(), User: "root", Mounts: []sandbox.Mount{{Source: v.Name, Target: "/cache", Kind: sandbox.Volume}}})
	if got, code := run(t, p, h, "echo x > /cache/f && cat /cache/f"); code != 0 || got != "x" {
		t.Errorf("in the volume: %q, %d", got, code)
	}
	if err := p.Release(t.Context(), "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.engine.VolumeInspect(t.Context(), v.Name); err != nil {
		t.Errorf("Release took a named volume: %v", err)
	}
}

func TestAttach_afterARestartByHand(t *testing.T) {
	p := ownProvider(t)
	h := mustAllocate(t, p, sandbox.Spec{Workspace: t.TempDir()})
	if _, code := run(t, p, h, "echo kept > /tmp/marker"); code != 0 {
		t.Fatal("cannot write to /tmp")
	}
	if err := p.engine.ContainerRestart(t.Context(), h.SandboxID, container.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	again, err := p.Attach(t.Context(), refOf(t, h))
	if err != nil {
		t.Fatalf("Attach = %v", err)
	}
	if got, _ := run(t, p, again, "cat /tmp/marker"); got != "kept" {
		t.Errorf("marker = %q", got)
	}
}

func TestAttach_refusesAChangedSource(t *testing.T) {
	p := ownProvider(t)
	dir := t.TempDir()
	workspace := filepath.Join(dir, "ws")
	if err := os.Mkdir(workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	h := mustAllocate(t, p, sandbox.Spec{Workspace: workspace})
	if err := p.Stop(t.Context(), refOf(t, h)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(workspace, workspace+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", workspace); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Attach(t.Context(), refOf(t, h)); !errors.Is(err, sandbox.ErrStopped) {
		t.Errorf("Attach over a link to /etc = %v, want %v", err, sandbox.ErrStopped)
	}
	if err := os.Remove(workspace); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Attach(t.Context(), refOf(t, h)); !errors.Is(err, sandbox.ErrStopped) {
		t.Errorf("Attach without the workspace = %v, want %v", err, sandbox.ErrStopped)
	}
	if _, err := os.Lstat(workspace); err == nil {
		t.Error("the workspace was created")
	}
	if err := os.Rename(workspace+".away", workspace); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Attach(t.Context(), refOf(t, h)); err != nil {
		t.Errorf("Attach with the workspace back = %v", err)
	}
}

func TestAwaitGuest_saysWhyThereIsNone(t *testing.T) {
	p := ownProvider(t)
	b, err := p.makeBox(newGuestID(), "root", os.Getuid(), os.Getgid())
	if err != nil {
		t.Fatal(err)
	}
	created, err := p.engine.ContainerCreate(t.Context(), &container.Config{
		Image: p.opts.DefaultImage, Cmd: []string{"sh", "-c", "echo out of luck >&2; exit 3"},
		Labels: map[string]string{labelInstance: p.opts.Instance, labelSession: "root", labelSandbox: b.guestID},
	}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	h, err := p.handle(created.ID, b, "/", b.dial)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	_, err = p.Attach(t.Context(), refOf(t, h))
	if !errors.Is(err, sandbox.ErrStopped) || !strings.Contains(err.Error(), "out of luck") || !strings.Contains(err.Error(), "code 3") {
		t.Errorf("Attach = %v", err)
	}
	if took := time.Since(begun); took > guestTimeout/2 {
		t.Errorf("that took %v", took)
	}
}

func TestInspect_tellsStopFromKill(t *testing.T) {
	p := ownProvider(t)
	h := mustAllocate(t, p, sandbox.Spec{Workspace: t.TempDir()})
	for _, test := range []struct {
		cause string
		do    func() error
	}{
		{sandbox.CauseByHand, func() error {
			return p.engine.ContainerStop(t.Context(), h.SandboxID, container.StopOptions{})
		}},
		{sandbox.CauseKilled, func() error {
			ended, failed := p.engine.ContainerWait(t.Context(), h.SandboxID, container.WaitConditionNextExit)
			if err := p.engine.ContainerKill(t.Context(), h.SandboxID, "KILL"); err != nil {
				return err
			}
			select {
			case <-ended:
				return nil
			case err := <-failed:
				return err
			}
		}},
	} {
		if err := test.do(); err != nil {
			t.Fatal(err)
		}
		c, err := p.Inspect(t.Context(), refOf(t, h))
		if err != nil || c.Value != sandbox.StateStopped || c.Cause != test.cause {
			t.Errorf("Inspect = %+v, %v, want stopped, %q", c, err, test.cause)
		}
		if _, err := p.Attach(t.Context(), refOf(t, h)); err != nil {
			t.Fatal(err)
		}
	}
}

// The event of a stop comes after that of the end, and may not have come yet when
// the cause is asked for. The engine's clock need not be ours.
func TestInspect_beforeTheStopIsTold(t *testing.T) {
	const kill15 = `{"Type":"container","Action":"kill","Actor":{"ID":"` + someID + `","Attributes":{"signal":"15"}}}`
	const kill9 = `{"Type":"container","Action":"kill","Actor":{"ID":"` + someID + `","Attributes":{"signal":"9"}}}`
	const start = `{"Type":"container","Action":"start","Actor":{"ID":"` + someID + `"}}`
	for _, ahead := range []time.Duration{-time.Hour, 0, time.Hour} {
		ended := time.Now().Add(ahead).UTC()
		for _, test := range []struct{ told, want string }{
			{kill15 + kill9, sandbox.CauseByHand},
			{kill9, sandbox.CauseKilled},
			{kill15 + start + kill9, sandbox.CauseKilled},
			{kill15, sandbox.CauseOutOfMemory},
			{"", sandbox.CauseOutOfMemory},
		} {
			stub := &stubEngine{newest: "1.41", oldest: "1.12", handle: map[string]http.HandlerFunc{
				"/containers/" + someID + "/json": func(w http.ResponseWriter, r *http.Request) {
					fmt.Fprintf(w, `{"Id":%q,"State":{"Status":"exited","ExitCode":137,"OOMKilled":true,"FinishedAt":%q},"HostConfig":{},"Config":{"StopTimeout":2,"Labels":{"glovebox.instance":"stub"}}}`,
						someID, ended.Format(time.RFC3339Nano))
				},
				"/events": func(w http.ResponseWriter, r *http.Request) {
					since, until := engineTime(t, r, "since"), engineTime(t, r, "until")
					if since.After(ended.Add(-4*time.Second)) || until.Before(ended) || until.After(ended.Add(10*time.Second)) {
						t.Errorf("of an end at %v it is asked for what was from %v to %v", ended, since, until)
					}
					io.WriteString(w, test.told)
				},
			}}
			p := stubProvider(t, stub.start(t))
			if c, err := p.Inspect(t.Context(), stubRef(t, p)); err != nil || c.Value != sandbox.StateStopped || c.Cause != test.want {
				t.Errorf("told %q by a clock that is %v ahead: %+v, %v, want %q", test.told, ahead, c, err, test.want)
			}
		}
	}
}

// engineTime is a time in a question for events.
func engineTime(t *testing.T, r *http.Request, name string) time.Time {
	seconds, nanos, _ := strings.Cut(r.URL.Query().Get(name), ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	n, _ := strconv.ParseInt(nanos, 10, 64)
	if err != nil {
		t.Errorf("%s is %q", name, r.URL.Query().Get(name))
	}
	return time.Unix(s, n)
}

// A full memory is the cause when it ended the container, and not when it once
// ended a command.
func TestInspect_fullMemory(t *testing.T) {
	p := ownProvider(t)
	small := map[string]string{"memory": "40m"}
	h := mustAllocate(t, p, sandbox.Spec{Workspace: t.TempDir(), Resources: small})
	if out, code := run(t, p, h, "tail /dev/zero"); code == 0 {
		t.Fatalf("a command has more memory than there is: %s", out)
	}
	if err := p.engine.ContainerStop(t.Context(), h.SandboxID, container.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	if c, err := p.Inspect(t.Context(), refOf(t, h)); err != nil || c.Cause != sandbox.CauseByHand {
		t.Errorf("stopped by hand: %+v, %v", c, err)
	}

	created, err := p.engine.ContainerCreate(t.Context(), &container.Config{
		Image: p.opts.DefaultImage, Cmd: []string{"tail", "/dev/zero"},
		Labels: map[string]string{labelInstance: p.opts.Instance, labelSession: "root", labelSandbox: newGuestID()},
	}, &container.HostConfig{Resources: container.Resources{Memory: 16 << 20, MemorySwap: 16 << 20}}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	ended, failed := p.engine.ContainerWait(t.Context(), created.ID, container.WaitConditionNextExit)
	if err := p.start(t.Context(), created.ID); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case err := <-failed:
		t.Fatal(err)
	}
	if c, err := p.observe(t.Context(), spot{id: created.ID}); err != nil || c.Value != sandbox.StateStopped || c.Cause != sandbox.CauseOutOfMemory {
		t.Errorf("ended by a full memory: %+v, %v", c, err)
	}
}

func TestCondition(t *testing.T) {
	for _, test := range []struct {
		state container.State
		want  sandbox.State
		cause string
	}{
		{container.State{Status: "running", Running: true}, sandbox.StateReady, ""},
		{container.State{Status: "running", Running: true, OOMKilled: true}, sandbox.StateReady, ""},
		{container.State{Status: "paused", Running: true, Paused: true}, sandbox.StatePaused, sandbox.CauseByHand},
		{container.State{Status: "created"}, sandbox.StateStopped, ""},
		{container.State{Status: "exited", ExitCode: 137, OOMKilled: true}, sandbox.StateStopped, sandbox.CauseOutOfMemory},
		{container.State{Status: "exited", ExitCode: 0, OOMKilled: true}, sandbox.StateStopped, sandbox.CauseByHand},
		{container.State{Status: "exited", ExitCode: 137}, sandbox.StateStopped, sandbox.CauseKilled},
		{container.State{Status: "exited", ExitCode: 143}, sandbox.StateStopped, sandbox.CauseByHand},
		{container.State{Status: "exited", ExitCode: 1}, sandbox.StateStopped, sandbox.CauseExited},
		{container.State{Status: "dead", Dead: true}, sandbox.StateLost, sandbox.CauseRemoved},
		{container.State{Status: "removing"}, sandbox.StateLost, sandbox.CauseRemoved},
	} {
		if got := condition(&test.state); got.Value != test.want || got.Cause != test.cause {
			t.Errorf("condition(%+v) = %s, %q, want %s, %q", test.state, got.Value, got.Cause, test.want, test.cause)
		}
	}
}

func TestImportTiny(t *testing.T) {
	p := ownProvider(t)
	p.opts.Version = "test-" + strings.ToLower(rand.Text()[:10])
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if _, err := p.engine.ImageRemove(ctx, p.TinyImage(), image.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	if there, err := p.ImageExists(t.Context(), p.TinyImage()); err != nil || there {
		t.Fatalf("ImageExists = %v, %v before the import", there, err)
	}
	var steps []string
	begun := time.Now()
	ref, err := p.ImportTiny(t.Context(), func(step string) { steps = append(steps, step) })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("imported %s in %v", ref, time.Since(begun))
	if len(steps) != 2 {
		t.Errorf("steps = %q", steps)
	}
	steps = nil
	if again, err := p.ImportTiny(t.Context(), func(step string) { steps = append(steps, step) }); err != nil || again != ref || steps != nil {
		t.Errorf("the second import = %q, %v, with steps %q", again, err, steps)
	}
	if there, err := p.ImageExists(t.Context(), ref); err != nil || !there {
		t.Errorf("ImageExists = %v, %v after the import", there, err)
	}
}
