package docker

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// podmanConf is what a podman needs where no systemd runs, root has no
// CAP_SYS_RESOURCE, and cgroups are of both kinds. What watches an exec ends a
// second after that, and not five minutes.
const podmanConf = `[containers]
default_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
exit_command_delay = 1
`

// startPodman starts podman's API with storage of its own and returns its address.
func startPodman(t *testing.T) string {
	t.Helper()
	fail := func(err error) {
		t.Helper()
		if strings.Contains(os.Getenv("GLOVEBOX_TEST_REQUIRE"), "podman") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	for _, program := range []string{"podman", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			fail(err)
		}
	}
	dir, err := os.MkdirTemp("", "podman-") // the address of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "containers.conf")
	if err := os.WriteFile(conf, []byte(podmanConf), 0o644); err != nil {
		t.Fatal(err)
	}
	podman := func(args ...string) *exec.Cmd {
		cmd := exec.Command("podman", append([]string{"--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run"), "--tmpdir", filepath.Join(dir, "tmp")}, args...)...)
		cmd.Env = append(os.Environ(), "CONTAINERS_CONF="+conf)
		return cmd
	}
	var said strings.Builder
	socket := filepath.Join(dir, "podman.sock")
	service := podman("system", "service", "--time=0", "unix://"+socket)
	service.Stderr = &said
	service.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- service.Wait() }()
	t.Cleanup(func() {
		if out, err := podman("rm", "--all", "--force", "--time", "0").CombinedOutput(); err != nil {
			t.Logf("podman rm: %v\n%s", err, out)
		}
		service.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			service.Process.Kill()
			<-ended
		}
		waitForUsers(t, dir)
		mounts, err := os.ReadFile("/proc/self/mounts")
		if err != nil {
			t.Error(err)
		}
		lines := strings.Split(string(mounts), "\n")
		for _, line := range slices.Backward(lines) { // what it has mounted below its storage, the inner ones first
			if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
				if err := syscall.Unmount(f[1], syscall.MNT_DETACH); err != nil {
					t.Logf("unmount %s: %v", f[1], err)
				}
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("podman said:\n%s", &said)
		}
	})
	host := "unix://" + socket
	late := time.After(30 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		p, err := New(Options{Host: host, DataDir: t.TempDir(), Instance: "podman"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Ping(context.WithoutCancel(t.Context()))
		p.Close()
		if err == nil {
			return host
		}
		select {
		case <-tick.C:
		case err := <-ended:
			ended <- err
			fail(err)
		case <-late:
			fail(err)
		}
	}
}

// waitForUsers returns when no process names dir any more: what cleans up after a
// container is started by its monitor, outlives the service and mounts the storage.
func waitForUsers(t *testing.T, dir string) {
	t.Helper()
	late := time.After(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		users := slices.DeleteFunc(files, func(file string) bool {
			line, err := os.ReadFile(file) // no error but that it has ended
			return err != nil || !strings.Contains(string(line), dir)
		})
		if len(users) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Errorf("%s still use %s", users, dir)
			return
		}
	}
}

// Podman's API is one that a provider can work on.
func TestProvider_podman(t *testing.T) {
	host := startPodman(t)
	o := Options{Host: host}
	own := newProviderOn(t, o, t.TempDir(), "test-"+newGuestID()[:10])
	if info, err := own.Ping(t.Context()); err != nil || info.Engine != "Podman" || info.Channel != "exec" {
		t.Errorf("Ping = %+v, %v", info, err)
	}
	odd := filepath.Join(t.TempDir(), "a,b")
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := own.Allocate(t.Context(), "root", sandbox.Spec{Workspace: odd}); !errors.Is(err, sandbox.ErrSpec) || !strings.Contains(err.Error(), "Podman") {
		t.Errorf("Allocate on a path with a comma = %v", err)
	}
	testProvider(t, o, own)
}
