package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
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

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
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
		cmd := exec.Command("unshare", "--net", "--mount", os.Args[0], "-test.run", run, "-test.v", "-test.timeout", "240s")
		cmd.Env = append(os.Environ(), inOwnNetwork+"=1")
		out, err := cmd.CombinedOutput()
		t.Logf("in a network of its own:\n%s", out)
		if err != nil {
			t.Fatal(err)
		}
		return nil
	}
	other := exec.Command("unshare", "--net", "sleep", "600")
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
	until(t, 5*time.Second, func() error { // until it has left ours
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

// serve serves a handler at the neighbour's address.
func (n *neighbour) serve(addr string, h http.Handler, tls bool) {
	n.t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	n.there(func() (err error) {
		s.Listener, err = net.Listen("tcp", addr)
		return err
	})
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	n.t.Cleanup(s.Close)
}

// hostPrograms are the mounts that give a container this machine's curl and git.
func hostPrograms(wall sandbox.Wall) []sandbox.Mount {
	if wall == sandbox.WallNamespace {
		return nil // has them
	}
	mounts := []sandbox.Mount{{Source: "/usr", Target: "/usr", Mode: sandbox.ReadOnly}}
	for _, dir := range []string{"/lib", "/lib64"} {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			mounts = append(mounts, sandbox.Mount{Source: real, Target: dir, Mode: sandbox.ReadOnly})
		}
	}
	return mounts
}

// A sandbox reaches public addresses by the relay, in every protocol that the
// relay speaks; and nothing by any other way.
func TestEgress(t *testing.T) {
	n := ownNetwork(t)
	if n == nil {
		return
	}
	var strays atomic.Int64 // packets that came without the relay
	n.there(func() error {
		c, err := net.ListenPacket("udp", theirPublic+":53")
		if err != nil {
			return err
		}
		t.Cleanup(func() { c.Close() })
		go func() {
			for buf := make([]byte, 1500); ; strays.Add(1) {
				if _, _, err := c.ReadFrom(buf); err != nil {
					return
				}
			}
		}()
		return nil
	})
	probe, err := net.Dial("udp", theirPublic+":53") // from here packets do get there
	if err != nil {
		t.Fatal(err)
	}
	defer probe.Close()
	if _, err := probe.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	until(t, 5*time.Second, func() error {
		if strays.Load() == 0 {
			return errors.New("no packet by UDP arrives")
		}
		return nil
	})
	repo := gitRepository(t)
	mux := http.NewServeMux()
	mux.Handle("/repo.git/", &cgi.Handler{
		Path: "/usr/lib/git-core/git-http-backend", Root: "/",
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(repo), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	})
	mux.HandleFunc("/in", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+theirPrivate+":8000/", http.StatusFound)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello from outside, %s\n", r.Method) })
	n.serve(theirPublic+":8000", mux, false)
	n.serve(theirPublic+":8443", mux, true)
	n.serve("["+their6+"]:8000", mux, false)
	n.serve(theirPrivate+":8000", mux, false)
	ours := httptest.NewServer(http.NotFoundHandler()) // a service of the server's machine, on loopback
	defer ours.Close()
	everywhere, err := net.Listen("tcp", ourPublic+":8000") // and one on its public address
	if err != nil {
		t.Fatal(err)
	}
	defer everywhere.Close()

	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		before := strays.Load()
		s := start(t, dataDir(t))
		spec := sandbox.Spec{Wall: wall, Mounts: hostPrograms(wall)}
		id := s.open(httpapi.OpenRequest{Workspace: workspace(t, 1000), Spec: spec})
		if v := s.awaitState(id, time.Minute, sandbox.StateReady); v.Network != "proxy" {
			t.Errorf("network %q, want proxy by default", v.Network)
		}
		curl := "/usr/bin/curl -sS --max-time 10 "
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.base, "http://"))
		for _, test := range []struct {
			name, command, want string
			refused             string // HOST:PORT of a decision against it
		}{
			{"plain http", curl + "http://web.test:8000/", "hello from outside", ""},
			{"https", curl + "-k https://web.test:8443/", "hello from outside", ""},
			{"POST", curl + "-d x=1 http://web.test:8000/", "outside, POST", ""},
			{"an address", curl + "http://" + theirPublic + ":8000/", "hello from outside", ""},
			{"an IPv6 address", curl + "http://[" + their6 + "]:8000/", "hello from outside", ""},
			{"SOCKS5", curl + "-x socks5h://127.0.0.1:3128 -k https://web.test:8443/", "hello from outside", ""},
			{"git over http", "cd /tmp && rm -rf a && /usr/bin/git clone -q http://web.test:8000/repo.git a && cat a/file", "from a repository", ""},
			{"git over https", "cd /tmp && rm -rf b && /usr/bin/git -c http.sslVerify=false clone -q https://web.test:8443/repo.git b && cat b/file", "from a repository", ""},

			{"a private address", curl + "http://" + theirPrivate + ":8000/", "a private address", theirPrivate + ":8000"},
			{"a name of a private address", curl + "http://db.test:8000/", "--allow db.test:8000", "db.test:8000"},
			{"the same by CONNECT", curl + "https://db.test:8000/", "403", "db.test:8000"},
			{"the same by SOCKS5", curl + "-x socks5h://127.0.0.1:3128 http://db.test:8000/", "(2)", "db.test:8000"},
			{"a redirect inwards", curl + "-L http://web.test:8000/in", "a private address", theirPrivate + ":8000"},
			{"the machine's loopback", curl + "--noproxy '' " + ours.URL, "loopback", strings.TrimPrefix(ours.URL, "http://")},
			{"the machine's public address", curl + "http://" + ourPublic + ":8000/", "an address of this machine", ourPublic + ":8000"},
			{"our own API", curl + "--noproxy '' " + s.base + "/api/v1/about", "Glovebox itself", "127.0.0.1:" + port},
			{"metadata", curl + "http://169.254.169.254/latest/", "metadata", "169.254.169.254:80"},

			{"an address without the proxy", curl + "--noproxy '*' http://" + theirPublic + ":8000/; echo $?", "\n7", ""},
			{"an IPv6 address without the proxy", curl + "--noproxy '*' 'http://[" + their6 + "]:8000/'; echo $?", "\n7", ""},
			{"without the variables", "env -i " + curl + "http://" + theirPublic + ":8000/; echo $?", "\n7", ""},
			{"a name without the proxy", curl + "--noproxy '*' http://web.test:8000/; echo $?", "\n6", ""},
			{"the machine's address without the proxy", curl + "--noproxy '*' http://" + ourPublic + ":8000/; echo $?", "\n7", ""},
			{"the machine's loopback without the proxy", curl + ours.URL + "; echo $?", "\n7", ""},
			{"DNS", "(echo x > /dev/udp/" + theirPublic + "/53) 2>&1; " + busybox(wall) + " nslookup -timeout=1 web.test " + theirPublic + " 2>&1; echo end", "end", ""},
			{"interfaces", "tail -n +3 /proc/net/dev | cut -d: -f1; echo end", "    lo\nend", ""},
		} {
			t.Run(test.name, func(t *testing.T) {
				s := s.in(t)
				if r := s.bash(id, "exec 2>&1; "+test.command); !strings.Contains(r.Text, test.want) {
					t.Errorf("%s\nsays %q, want %q", test.command, r.Text, test.want)
				}
				if test.refused != "" {
					s.awaitRefusal(id, test.refused)
				}
			})
		}
		if got := strays.Load() - before; got > 0 {
			t.Errorf("%d packets by UDP came out", got)
		}
		rows := s.egress(id)
		allowed, bytes := 0, int64(0)
		for _, r := range rows {
			if r.Decided.Allowed && r.Decided.Host == "web.test" {
				allowed += r.Decided.Count
				bytes += r.Decided.Received
			}
		}
		if allowed < 8 || bytes == 0 {
			t.Errorf("the record says %d connections with %d bytes to web.test: %+v", allowed, bytes, rows)
		}

		t.Run("none", func(t *testing.T) {
			s := s.in(t)
			spec := spec
			spec.Network.Mode = sandbox.NetworkNone
			id := s.open(httpapi.OpenRequest{Workspace: workspace(t, 1000), Spec: spec})
			s.awaitState(id, time.Minute, sandbox.StateReady)
			r := s.bash(id, "exec 2>&1; env | grep -ci _proxy; "+curl+"-x http://127.0.0.1:3128 http://web.test:8000/; echo $?")
			if !strings.HasPrefix(r.Text, "0\n") || !strings.Contains(r.Text, "\n7") {
				t.Errorf("with network none: %q", r.Text)
			}
		})
		t.Run("allowed", func(t *testing.T) {
			s := s.in(t)
			spec := spec
			spec.Network.Allow = []string{"*.corp.test:8000", strings.TrimPrefix(ours.URL, "http://")}
			id := s.open(httpapi.OpenRequest{Workspace: workspace(t, 1000), Spec: spec})
			s.awaitState(id, time.Minute, sandbox.StateReady)
			r := s.bash(id, "exec 2>&1; "+curl+"http://a.corp.test:8000/; "+curl+"--noproxy '' -o /dev/null -w '%{http_code}\\n' "+ours.URL+"; "+curl+"http://db.test:8000/")
			for _, want := range []string{"hello from outside", "404\n", "--allow db.test:8000"} {
				if !strings.Contains(r.Text, want) {
					t.Errorf("with names allowed: %q, want %q", r.Text, want)
				}
			}
		})
	})
}

// busybox returns how a wall's sandbox calls it.
func busybox(wall sandbox.Wall) string {
	if wall == sandbox.WallDocker {
		return "/bin/busybox"
	}
	return "busybox"
}

// egress lists a session's decisions.
func (s *server) egress(id string) []httpapi.EgressRow {
	s.t.Helper()
	var rows []httpapi.EgressRow
	if err := s.call(s.t.Context(), "GET", "/sessions/"+id+"/egress?limit=1000", nil, &rows); err != nil {
		s.t.Fatalf("egress of %s: %v", id, err)
	}
	return rows
}

// awaitRefusal waits until the record shows that a connection was refused.
func (s *server) awaitRefusal(id, hostPort string) {
	s.t.Helper()
	until(s.t, 10*time.Second, func() error {
		rows := s.egress(id)
		for _, r := range rows {
			if d := r.Decided; !d.Allowed && d.Reason != "" && net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port))) == hostPort {
				return nil
			}
		}
		return fmt.Errorf("no refusal of %s in %+v", hostPort, rows)
	})
}

// gitRepository makes a bare repository with one file.
func gitRepository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := `git init -q work && cd work && echo from a repository > file && git add file &&
		git -c user.name=t -c user.email=t@t commit -qm one && git clone -q --bare . ../repo.git && cd ../repo.git && git update-server-info`
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a repository: %v\n%s", err, out)
	}
	return filepath.Join(dir, "repo.git")
}

// What runs in a sandbox gets 503 at once while no server holds the way out, and
// has it back when one is there again, without anybody calling the sandbox.
func TestEgress_serverKilled(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(web.Close)
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		data, ws := dataDir(t), workspace(t, 1000)
		s := start(t, data)
		spec := sandbox.Spec{Wall: wall, Mounts: hostPrograms(wall)}
		spec.Network.Allow = []string{strings.TrimPrefix(web.URL, "http://")}
		id := s.open(httpapi.OpenRequest{Workspace: ws, Spec: spec})
		s.awaitState(id, time.Minute, sandbox.StateReady)
		s.bash(id, "(while :; do /usr/bin/curl -s --max-time 10 --noproxy '' -o /dev/null -w '%{http_code} %{time_total}\\n' "+web.URL+" >> /workspace/log; sleep 0.1; done) >/dev/null 2>&1 &")
		await := func(code string) float64 {
			t.Helper()
			before := len(lines(t, ws))
			took := 0.0
			until(t, 30*time.Second, func() error {
				all := lines(t, ws)
				for _, l := range all[min(before, len(all)):] {
					if rest, ok := strings.CutPrefix(l, code+" "); ok {
						took, _ = strconv.ParseFloat(rest, 64)
						return nil
					}
				}
				return fmt.Errorf("no %s in %q", code, all[max(0, len(all)-5):])
			})
			return took
		}
		await("200")
		s.kill()
		if took := await("503"); took > 2 {
			t.Errorf("503 after %v s", took)
		}
		again := start(t, data)
		await("200")
		again.post(id, "restart", nil)
		again.awaitState(id, time.Minute, sandbox.StateReady)
		r := again.bash(id, "/usr/bin/curl -s --retry 5 --retry-delay 1 --noproxy '' "+web.URL)
		if r.Text != "hello" && !strings.Contains(r.Text, "hello") {
			t.Errorf("after a restart of the sandbox: %q", r.Text)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := again.call(ctx, "POST", "/sessions/"+id+"/stop", nil, nil); err != nil {
			t.Fatal(err)
		}
		again.post(id, "start", nil)
		if r := again.bash(id, "/usr/bin/curl -s --retry 5 --retry-delay 1 --noproxy '' "+web.URL); !strings.Contains(r.Text, "hello") {
			t.Errorf("after stop and start: %q", r.Text)
		}
	})
}

func lines(t *testing.T, ws string) []string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(ws, "log"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	text := strings.TrimSuffix(string(body), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// Connections that are open live through a pause of their container, whole; and
// through no end of the server: what was cut does not look complete, and the way
// out comes back by itself.
func TestEgress_openConnections(t *testing.T) {
	t.Parallel()
	more := make(chan string)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/short" {
			fmt.Fprint(w, "hello")
			return
		}
		for {
			select {
			case text := <-more:
				if text == "" {
					return
				}
				fmt.Fprint(w, text)
				http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(web.Close)
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		data, ws := dataDir(t), workspace(t, 1000)
		s := start(t, data)
		spec := sandbox.Spec{Wall: wall, Mounts: hostPrograms(wall)}
		spec.Network.Allow = []string{strings.TrimPrefix(web.URL, "http://")}
		id := s.open(httpapi.OpenRequest{Workspace: ws, Spec: spec})
		s.awaitState(id, time.Minute, sandbox.StateReady)
		send := func(text string) {
			t.Helper()
			select {
			case more <- text:
			case <-time.After(20 * time.Second):
				t.Fatalf("nobody takes %q", text)
			}
		}
		holds := func(name, want string) {
			t.Helper()
			until(t, 20*time.Second, func() error {
				if body, err := os.ReadFile(filepath.Join(ws, name)); err != nil || string(body) != want {
					return fmt.Errorf("%s holds %q, %v, want %q", name, body, err, want)
				}
				return nil
			})
		}
		get := func(out string) {
			t.Helper()
			s.bash(id, "(/usr/bin/curl -sSN --noproxy '' "+web.URL+"/ >"+out+" 2>"+out+".said; echo $? >"+out+".end) >/dev/null 2>&1 &")
		}

		if wall == sandbox.WallDocker {
			get("paused")
			send("one ")
			holds("paused", "one ")
			container := s.show(id).ShortID
			dockerDo(t, "pause", container)
			s.awaitState(id, 30*time.Second, sandbox.StatePaused)
			send("two ")
			dockerDo(t, "unpause", container)
			send("three")
			send("")
			holds("paused.end", "0\n")
			holds("paused", "one two three")
		}

		get("cut")
		send("one ")
		holds("cut", "one ")
		s.kill()
		until(t, 20*time.Second, func() error {
			body, err := os.ReadFile(filepath.Join(ws, "cut.end"))
			if code := strings.TrimSpace(string(body)); err != nil || code == "0" || code == "" {
				return fmt.Errorf("a transfer that was cut ended with %q, %v", body, err)
			}
			return nil
		})
		s = start(t, data)
		if r := s.bash(id, "/usr/bin/curl -s --retry 8 --retry-delay 1 --noproxy '' "+web.URL+"/short"); !strings.HasSuffix(r.Text, "hello") {
			t.Errorf("with a server again: %q", r.Text)
		}
	})
}
