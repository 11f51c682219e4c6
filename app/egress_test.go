package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

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
	strays, others := n.strays(theirPublic+":53"), n.strays(theirPublic+":54")
	probe := func(address string, count *atomic.Int64, again bool) { // from here packets do get there
		t.Helper()
		c, err := net.Dial("udp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		sent := false
		until(t, 20*time.Second, func() error {
			if count.Load() > 0 {
				return nil
			}
			if !sent || again {
				_, err = c.Write([]byte("x"))
				sent = true
			}
			return fmt.Errorf("no packet by UDP arrives: %v", err)
		})
	}
	probe(theirPublic+":54", others, true) // a cable that was just put in loses some
	probe(theirPublic+":53", strays, false)
	mux := http.NewServeMux()
	mux.Handle("/repo.git/", gitRepository(t))
	mux.HandleFunc("/in", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+theirPrivate+":8000/", http.StatusFound)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello from outside, %s\n", r.Method) })
	n.serve(theirPublic+":8000", mux, nil)
	n.serve(theirPublic+":8443", mux, &tls.Config{})
	n.serve("["+their6+"]:8000", mux, nil)
	n.serve(theirPrivate+":8000", mux, nil)
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
		until(t, time.Minute, func() error { // equal decisions are told together, after a while
			rows := s.egress(id)
			allowed, bytes := 0, int64(0)
			for _, r := range rows {
				if r.Decided.Allowed && r.Decided.Host == "web.test" {
					allowed += r.Decided.Count
					bytes += r.Decided.Received
				}
			}
			if allowed < 8 || bytes == 0 {
				return fmt.Errorf("the record says %d connections with %d bytes to web.test: %+v", allowed, bytes, rows)
			}
			return nil
		})

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
	until(s.t, 40*time.Second, func() error {
		rows := s.egress(id)
		for _, r := range rows {
			if d := r.Decided; !d.Allowed && d.Reason != "" && net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port))) == hostPort {
				return nil
			}
		}
		return fmt.Errorf("no refusal of %s in %+v", hostPort, rows)
	})
}

// gitRepository makes a bare repository with one file, and serves it as /repo.git.
func gitRepository(t *testing.T) http.Handler {
	t.Helper()
	dir := t.TempDir()
	script := `git init -q work && cd work && echo from a repository > file && git add file &&
		git -c user.name=t -c user.email=t@t commit -qm one && git clone -q --bare . ../repo.git && cd ../repo.git && git update-server-info`
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a repository: %v\n%s", err, out)
	}
	return &cgi.Handler{
		Path: "/usr/lib/git-core/git-http-backend", Root: "/",
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
}

// letThrough opens a session that may connect to a site of this machine, and waits
// for its sandbox.
func letThrough(t *testing.T, wall sandbox.Wall, url string) (s *server, id, ws string) {
	t.Helper()
	ws = workspace(t, 1000)
	s = start(t, dataDir(t))
	spec := sandbox.Spec{Wall: wall, Mounts: hostPrograms(wall)}
	spec.Network.Allow = []string{strings.TrimPrefix(url, "http://")}
	id = s.open(httpapi.OpenRequest{Workspace: ws, Spec: spec})
	s.awaitState(id, time.Minute, sandbox.StateReady)
	return s, id, ws
}

// What runs in a sandbox gets 503 at once while no server holds the way out, and
// has it back when one is there again, without anybody calling the sandbox.
func TestEgress_serverKilled(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(web.Close)
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		s, id, ws := letThrough(t, wall, web.URL)
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
		// The quickest of three: one may have begun before the end, or stood still.
		if took := min(await("503"), await("503"), await("503")); took > 2 {
			t.Errorf("503 after %v s", took)
		}
		again := start(t, s.data)
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
		s, id, ws := letThrough(t, wall, web.URL)
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
		s = start(t, s.data)
		if r := s.bash(id, "/usr/bin/curl -s --retry 8 --retry-delay 1 --noproxy '' "+web.URL+"/short"); !strings.HasSuffix(r.Text, "hello") {
			t.Errorf("with a server again: %q", r.Text)
		}
	})
}
