package app

import (
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inOwnNetwork marks the test's second run, in a network of its own.
const inOwnNetwork = "GLOVEBOX_TEST_OWN_NETWORK"

// The addresses of the test's own network. The server's machine has the first of
// each pair; the other machine stands for the internet, and for a private network.
const (
	ourPublic    = "93.184.216.1"
	theirPublic  = "93.184.216.34"
	ourPrivate   = "10.77.0.1"
	theirPrivate = "10.77.0.2"
	our6         = "2606:4700::1"
	their6       = "2606:4700::2"
)

// ownNetwork runs the calling test again where nobody else's packets are: in
// network and mount namespaces of its own, with a machine beside them that is
// reached over a cable. In the first run it returns nil: the second has told all.
func ownNetwork(t *testing.T) *neighbour {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for network namespaces")
	}
	for _, name := range []string{"unshare", "nsenter", "ip", "curl", "git"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("no %s on this machine", name)
		}
	}
	if os.Getenv(inOwnNetwork) == "" {
		run := "^" + t.Name() + "$"
		if _, part, ok := strings.Cut(flag.Lookup("test.run").Value.String(), "/"); ok {
			run += "/" + part
		}
		cmd := exec.Command("unshare", "--net", "--mount", os.Args[0], "-test.run", run, "-test.v", "-test.timeout", "20m")
		cmd.Env = append(os.Environ(), inOwnNetwork+"=1")
		out, err := cmd.CombinedOutput()
		t.Logf("in a network of its own:\n%s", out)
		if err != nil {
			t.Fatal(err)
		}
		return nil
	}
	other := exec.Command("unshare", "--net", "sleep", "1200")
	other.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		other.Process.Kill()
		other.Wait()
	})
	n := &neighbour{t: t}
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(other.Process.Pid)
	until(t, 20*time.Second, func() error { // until it has left ours
		if there, err := os.Readlink("/proc/" + pid + "/ns/net"); err != nil || there == own {
			return fmt.Errorf("its network is %s (%v)", there, err)
		}
		return nil
	})
	if n.ns, err = os.Open("/proc/" + pid + "/ns/net"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.ns.Close() })
	for _, line := range []string{
		"ip link set lo up",
		"ip link add here type veth peer name there",
		"ip link set there netns " + pid,
		"ip addr add " + ourPublic + "/24 dev here",
		"ip addr add " + ourPrivate + "/24 dev here",
		"ip -6 addr add " + our6 + "/64 dev here nodad",
		"ip link set here up",
		"nsenter -t " + pid + " -n ip link set lo up",
		"nsenter -t " + pid + " -n ip addr add " + theirPublic + "/24 dev there",
		"nsenter -t " + pid + " -n ip addr add " + theirPrivate + "/24 dev there",
		"nsenter -t " + pid + " -n ip -6 addr add " + their6 + "/64 dev there nodad",
		"nsenter -t " + pid + " -n ip link set there up",
	} {
		args := strings.Fields(line)
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	text := "127.0.0.1 localhost\n" + theirPublic + " web.test\n" + theirPrivate + " db.test a.corp.test\n"
	if err := os.WriteFile(hosts, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount("/etc/hosts", unix.MNT_DETACH) })
	return n
}

// neighbour is the machine at the other end of the cable.
type neighbour struct {
	t  *testing.T
	ns *os.File
}

// there runs f where sockets that it makes are the neighbour's.
func (n *neighbour) there(f func() error) {
	n.t.Helper()
	runtime.LockOSThread()
	own, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		n.t.Fatal(err)
	}
	defer own.Close()
	if err := unix.Setns(int(n.ns.Fd()), unix.CLONE_NEWNET); err != nil {
		n.t.Fatal(err)
	}
	err = f()
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		n.t.Fatal(back) // the thread stays locked, and so is not used again
	}
	runtime.UnlockOSThread()
	if err != nil {
		n.t.Fatal(err)
	}
}

// serve serves a handler at the neighbour's address: by TLS where there is a
// configuration, and with a certificate that nobody trusts where that has none.
func (n *neighbour) serve(addr string, h http.Handler, secure *tls.Config) {
	n.t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	n.there(func() (err error) {
		s.Listener, err = net.Listen("tcp", addr)
		return err
	})
	if secure != nil {
		s.TLS = secure
		s.StartTLS()
	} else {
		s.Start()
	}
	n.t.Cleanup(s.Close)
}

// strays counts the packets by UDP that come to the neighbour's addresses: none
// that comes by the relay does.
func (n *neighbour) strays(addrs ...string) *atomic.Int64 {
	n.t.Helper()
	var count atomic.Int64
	for _, addr := range addrs {
		var c net.PacketConn
		n.there(func() (err error) {
			c, err = net.ListenPacket("udp", addr)
			return err
		})
		over := make(chan struct{})
		go func() {
			defer close(over)
			for buf := make([]byte, 1500); ; count.Add(1) {
				if _, _, err := c.ReadFrom(buf); err != nil {
					return
				}
			}
		}()
		n.t.Cleanup(func() {
			c.Close()
			<-over
		})
	}
	return &count
}
