//go:build linux

package namespace

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// owners are the users whose workspaces are tried: a plain one, and root, whose
// uid owns the host's kernel settings and private files.
func owners() []int {
	if os.Getuid() != 0 {
		return []int{os.Getuid()}
	}
	return []int{1000, 0}
}

// eachOwner runs a test in a sandbox for each kind of workspace. The helper is
// there as /helper.
func eachOwner(t *testing.T, test func(t *testing.T, f *fixture)) {
	requireWall(t)
	helper := helperFor(t, os.TempDir())
	for _, uid := range owners() {
		t.Run(fmt.Sprintf("workspace of %d", uid), func(t *testing.T) {
			test(t, allocate(t, uid, func(s *sandbox.Spec) {
				s.Mounts = []sandbox.Mount{{Source: helper, Target: "/helper", Mode: sandbox.ReadOnly}}
			}))
		})
	}
}

// refused fails the test when the helper can do what it is told.
func (f *fixture) refused(t *testing.T, args string) {
	t.Helper()
	if output, code := f.sh(t, helperVariable+"=1 /helper "+args); code == 0 {
		t.Errorf("%s works: %s", args, output)
	}
}

func TestEscape_kernelFiles(t *testing.T) {
	eachOwner(t, func(t *testing.T, f *fixture) {
		// Opening is the test: what a write would do is not worth finding out.
		got := f.must(t, `n=0; w=
for file in $(find /proc /sys -path '/proc/[0-9]*' -prune -o -type f -print 2>/dev/null); do
	n=$((n+1)); (: >> "$file") 2>/dev/null && w="$w $file"
done; [ $n -gt 100 ] && echo "writable:$w"`)
		if got != "writable:" {
			t.Errorf("of /proc and /sys, %s", got)
		}
		if got := f.must(t, "cat /proc/kcore /proc/keys /proc/timer_list 2>/dev/null | wc -c"); got != "0" {
			t.Errorf("%s bytes of the host's kernel are readable", got)
		}
	})
}

// The owner of a file may change its mode without a capability, and uid 0 is the
// owner of what every sandbox and the host share.
func TestEscape_modes(t *testing.T) {
	eachOwner(t, func(t *testing.T, f *fixture) {
		got := f.must(t, `n=0; w=
for file in $(find /dev /proc /sys /etc -path '/proc/[0-9]*' -prune -o -path '/dev/pts*' -prune -o ! -type l ! -type d -print 2>/dev/null); do
	n=$((n+1)); chmod $(stat -c %a "$file") "$file" 2>/dev/null && w="$w $file"
done; [ $n -gt 100 ] && echo "changed:$w"`)
		if got != "changed:" {
			t.Errorf("of what is the host's, %s", got)
		}
		f.must(t, "echo x > /dev/null; head -c 1 /dev/zero /dev/full /dev/random /dev/urandom | wc -c")
		f.refused(t, "vsock")
	})
}

func TestEscape_tree(t *testing.T) {
	eachOwner(t, func(t *testing.T, f *fixture) {
		want := "dev etc helper home proc run tmp usr var workspace"
		got := strings.Fields(f.must(t, "find / -mindepth 1 -maxdepth 1 -type d -o -maxdepth 1 -type f | sed s,/,,"))
		slices.Sort(got)
		got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "lib") || s == "bin" || s == "sbin" })
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("the root differs (-want +got):\n%s", diff)
		}
		if got := f.must(t, "find /run /home /var ! -type d ! -path '/home/glovebox/*'"); got != "/var/run" {
			t.Errorf("of the host there is %s", got)
		}
		if got := f.must(t, "find / '(' -path /proc -o -path /usr ')' -prune -o '(' -type s -o -type b ')' -print 2>/dev/null; true"); got != "" {
			t.Errorf("sockets or disks inside: %s", got)
		}
		// A file that its owner alone may read is not meant for a sandbox, even
		// where the sandbox runs as that owner.
		if got := f.must(t, "find -L /etc -type f ! -perm -004 2>/dev/null; true"); got != "" {
			t.Errorf("private files inside: %s", got)
		}
		for _, dir := range []string{"/", "/etc", "/usr", "/run", "/run/glovebox", "/home", "/var"} {
			if _, code := f.sh(t, "touch "+dir+"/new"); code == 0 {
				t.Errorf("%s can be written", dir)
			}
		}
		f.must(t, "touch /tmp/x /var/tmp/x /dev/shm/x ~/x /workspace/x")
	})
}

func TestEscape_sockets(t *testing.T) {
	name := fmt.Sprintf("glovebox-test-%d.sock", os.Getpid())
	addresses := []string{"@" + name, filepath.Join("/tmp", name), filepath.Join("/var/tmp", name)}
	if os.Getuid() == 0 {
		addresses = append(addresses, filepath.Join("/run", name))
	}
	for _, address := range addresses {
		l, err := net.Listen("unix", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		if err := help([]string{"connect", address}); err != nil {
			t.Fatalf("not even the host connects to %s: %v", address, err)
		}
	}
	eachOwner(t, func(t *testing.T, f *fixture) {
		for _, address := range append(addresses, "/var/run/docker.sock", "/run/docker.sock", "/run/dbus/system_bus_socket") {
			f.refused(t, "connect "+address)
		}
	})
}

func TestEscape_rights(t *testing.T) {
	eachOwner(t, func(t *testing.T, f *fixture) {
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			if got := f.must(t, "grep "+set+" /proc/self/status"); !strings.HasSuffix(got, "\t0000000000000000") {
				t.Errorf("a command has %s", got)
			}
		}
		f.refused(t, "userns")
		f.refused(t, "terminal")
		if got, code := f.sh(t, "unshare -Ur true"); code == 0 {
			t.Errorf("unshare -Ur works: %s", got)
		}
		if got := f.must(t, "ls /proc/self/fd"); got != "0\n1\n2\n3" { // the last is ls's own
			t.Errorf("descriptors of a command: %q", got)
		}
		if got := f.must(t, `grep -c : /proc/net/dev`); got != "1" {
			t.Errorf("%s network interfaces, want lo alone", got)
		}
	})
}

// What whoever started Glovebox left open does not get into a sandbox: with a
// directory of the host, not even the root tree would hold.
func TestEscape_inheritedDescriptor(t *testing.T) {
	fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0) // without close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	// Above the numbers that a start hands on.
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD, 200)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(high)
	f := allocate(t, os.Getuid(), nil)
	r, err := f.box.run()
	if err != nil {
		t.Fatal(err)
	}
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", r.PID))
	if err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 && len(open) < 4 {
		t.Errorf("the guest has %q open, so this test sees nothing", open)
	}
	host, err := os.Stat("/")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range open {
		if info, err := os.Stat(name); err == nil && os.SameFile(info, host) {
			t.Errorf("the guest has the host's root open as %s", name)
		}
	}
	if got := f.must(t, "ls /proc/self/fd"); got != "0\n1\n2\n3" {
		t.Errorf("descriptors of a command: %q", got)
	}
}

func TestEscape_guest(t *testing.T) {
	eachOwner(t, func(t *testing.T, f *fixture) {
		before, err := f.guest(t).Hello(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(before.Warnings) > 0 || before.BestEffort {
			t.Errorf("the guest warns: %q, best effort %v", before.Warnings, before.BestEffort)
		}
		for _, verb := range []string{"attach", "seize", "memory", "readv"} {
			f.refused(t, verb+" 1")
		}
		for _, script := range []string{
			"echo 1000 > /proc/1/oom_score_adj", "echo x > /proc/1/comm", "echo 1 > /proc/1/clear_refs",
			"cat /proc/1/environ", "cat /proc/1/maps", "cat /proc/1/auxv", "for fd in $(seq 0 40); do ls /proc/1/fd/$fd/ && exit 0; readlink /proc/1/fd/$fd && exit 0; done; exit 1", "ls /proc/1/root/", "ls /proc/1/cwd/",
			"nsenter -t 1 -m true", "mount -t tmpfs none /tmp", "umount /run/glovebox", "umount -l /proc/sys",
		} {
			if output, code := f.sh(t, script); code == 0 {
				t.Errorf("%s works: %s", script, output)
			}
		}
		f.sh(t, helperVariable+"=1 /helper signals")
		f.sh(t, "kill -9 -1")
		f.sh(t, "kill -STOP -1")
		after, err := f.guest(t).Hello(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if after.BootID != before.BootID {
			t.Error("the guest was ended from inside")
		}
		f.must(t, "true")
	})
}

func TestEscape_journal(t *testing.T) {
	eachOwner(t, func(t *testing.T, f *fixture) {
		state, err := filepath.Glob(filepath.Join(f.box.dir, "state", "*"))
		if err != nil || len(state) < 2 {
			t.Fatalf("the guest's state is %q, %v; want a lock and a journal", state, err)
		}
		if got := f.must(t, "ls -A /run/glovebox"); got != "" {
			t.Errorf("commands see %s", got)
		}
		if got := f.must(t, "grep -c glovebox/state /proc/self/mountinfo; true"); got == "" {
			t.Error("mountinfo is empty")
		}
		paths := []string{"/run/glovebox/state", "/run/glovebox/guest", "/proc/self/environ", "/proc/1/environ", "/proc/thread-self/environ"}
		for fd := range 32 {
			for _, proc := range []string{"self", "thread-self", "1"} {
				for _, s := range state {
					paths = append(paths, fmt.Sprintf("/proc/%s/fd/%d/%s", proc, fd, filepath.Base(s)))
				}
			}
		}
		f.must(t, "ln -s /proc/self/fd link")
		for fd := range 32 {
			paths = append(paths, fmt.Sprintf("/workspace/link/%d/%s", fd, filepath.Base(state[0])))
		}
		c := f.guest(t)
		for _, path := range paths {
			if r, err := c.ReadFile(t.Context(), execenv.Caller{}, execenv.ReadRequest{Path: path}); err == nil {
				t.Errorf("the guest serves %s: %+v", path, r)
			}
		}
	})
}
