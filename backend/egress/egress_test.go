package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/egress"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// names is a resolver with the answers of a test; each one is given once, the
// last one for ever.
type names struct {
	mu  sync.Mutex
	all map[string][][]string
}

func (n *names) set(host string, answers ...[]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all[host] = answers
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	answers := n.all[host]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(answers) > 1 {
		n.all[host] = answers[1:]
	}
	var addrs []netip.Addr
	for _, a := range answers[0] {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	return addrs, nil
}

// world is a proxy with what it decided. Its resolver answers from names, and
// every address but loopback's is a server of the test.
type world struct {
	t     *testing.T
	proxy *egress.Proxy
	addr  string // of the proxy
	names *names

	mu      sync.Mutex
	decided []egress.Decision
	ended   []egress.Decision
	dialled []string
	changed chan struct{}
}

func newWorld(t *testing.T, own []netip.AddrPort, dial func(ctx context.Context, network, addr string) (net.Conn, error), allow ...string) *world {
	w := &world{t: t, names: &names{all: map[string][][]string{}}, changed: make(chan struct{}, 1)}
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	w.proxy = egress.New(egress.Options{
		Decided: func(_ string, d egress.Decision) { w.note(func() { w.decided = append(w.decided, d) }) },
		Ended:   func(_ string, d egress.Decision) { w.note(func() { w.ended = append(w.ended, d) }) },
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			w.note(func() { w.dialled = append(w.dialled, addr) })
			return dial(ctx, network, addr)
		},
		Resolver: w.names,
		Machine: func() []netip.Addr {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("8.8.4.4")}
		},
		Own: func() []netip.AddrPort { return own },
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- w.proxy.Serve(ctx, "root", sandbox.Network{Mode: sandbox.NetworkProxy, Allow: allow}, l)
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Serve does not end")
		}
	})
	return w
}

func (w *world) note(f func()) {
	w.mu.Lock()
	f()
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// await waits until ok holds of what was noted.
func (w *world) await(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		w.mu.Lock()
		done := ok()
		w.mu.Unlock()
		if done {
			return
		}
		select {
		case <-w.changed:
		case <-deadline:
			w.t.Fatalf("no %s; decided %+v, ended %+v", what, w.decided, w.ended)
		}
	}
}

func (w *world) last() egress.Decision {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.decided) == 0 {
		return egress.Decision{}
	}
	return w.decided[len(w.decided)-1]
}

func (w *world) client() *http.Client {
	u := &url.URL{Scheme: "http", Host: w.addr}
	t := &http.Transport{Proxy: http.ProxyURL(u)}
	w.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, Timeout: 10 * time.Second}
}

// get makes a plain request by the proxy.
func (w *world) get(url string) (int, string, http.Header) {
	w.t.Helper()
	r, err := w.client().Get(url)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.StatusCode, string(body), r.Header
}

// curl runs curl with the arguments and returns what it printed and its exit code.
func curl(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "curl", append([]string{"-sS", "--max-time", "10", "--noproxy", ""}, args...)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("no curl on this machine")
	}
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestHTTP_forwardsWithoutHopByHopHeaders(t *testing.T) {
	var got *http.Request
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("X-Answer", "yes")
		fmt.Fprint(w, "hello")
	}))
	defer server.Close()
	w := newWorld(t, nil, nil, "web.test")
	w.names.set("web.test", []string{"127.0.0.1"})

	req, _ := http.NewRequest("POST", "http://web.test:"+portOf(t, server.Listener.Addr().String())+"/a%2Fb?x=1;y=2&z", strings.NewReader("sent"))
	req.Header.Set("Proxy-Authorization", "Basic c2VjcmV0")
	req.Header.Set("Connection", "X-Hop")
	req.Header.Set("X-Hop", "1")
	req.Header.Set("X-End", "1")
	req.Header.Set("User-Agent", "")
	r, err := w.client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	answer, _ := io.ReadAll(r.Body)
	if r.StatusCode != 200 || string(answer) != "hello" || r.Header.Get("X-Answer") != "yes" || r.Header.Get("Keep-Alive") != "" {
		t.Errorf("answer %s %q %v", r.Status, answer, r.Header)
	}
	if string(body) != "sent" || got.RequestURI != "/a%2Fb?x=1;y=2&z" || !strings.HasPrefix(got.Host, "web.test:") {
		t.Errorf("the server got %s %s of %s with %q", got.Method, got.RequestURI, got.Host, body)
	}
	for _, name := range []string{"Proxy-Authorization", "X-Hop", "Proxy-Connection", "X-Forwarded-For", "User-Agent", "Accept-Encoding", "Via"} {
		if name != "Accept-Encoding" && got.Header.Get(name) != "" {
			t.Errorf("the server got %s: %s", name, got.Header.Get(name))
		}
	}
	if got.Header.Get("X-End") != "1" {
		t.Error("a header of the client is missing")
	}
	w.await("end", func() bool { return len(w.ended) == 1 })
	if d := w.ended[0]; !d.Allowed || d.Protocol != egress.HTTP || d.Host != "web.test" || d.Address != "127.0.0.1" || d.Sent < 4 || d.Received < 5 || d.Duration <= 0 {
		t.Errorf("ended %+v", d)
	}
}

func TestHTTP_refusesWithReason(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.names.set("db.test", []string{"10.0.0.5"})
	w.names.set("both.test", []string{"10.0.0.5", "192.168.0.1"})
	for _, test := range []struct{ url, says string }{
		{"http://db.test:5432/", "--allow db.test:5432"},
		{"http://both.test/", "a private address"},
		{"http://127.0.0.1:80/", "this machine's loopback"},
		{"http://169.254.169.254/latest/meta-data/", "metadata"},
		{"http://[::1]:80/", "loopback"},
		{"http://[::ffff:8.8.8.8]/", "wraps another"},
		{"http://8.8.4.4/", "an address of this machine"},
	} {
		status, body, header := w.get(test.url)
		if status != 403 || !strings.Contains(body, test.says) || header.Get("Glovebox-Egress") == "" {
			t.Errorf("%s: %d %q, want 403 that says %q", test.url, status, body, test.says)
		}
		if d := w.last(); d.Allowed || d.Reason == "" || d.Host == "" || d.Port == 0 || d.Address == "" {
			t.Errorf("%s: decided %+v", test.url, d)
		}
	}
	if status, body, _ := w.get("http://nowhere.test/"); status != 502 || !strings.Contains(body, "no such host") {
		t.Errorf("a name that does not resolve: %d %q", status, body)
	}
	if len(w.dialled) > 0 {
		t.Errorf("dialled %v", w.dialled)
	}
	// Numbers that are no address by themselves are judged as what they resolve to.
	w.names.set("127.1", []string{"127.0.0.1"})
	if status, _, _ := w.get("http://127.1/"); status != 403 {
		t.Errorf("a short form of loopback: %d", status)
	}
}

// What is advised opens what was refused, and where nothing does nothing is.
func TestHTTP_advisesWhatWorks(t *testing.T) {
	own := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:7777")}
	names := map[string]string{"db.test": "10.0.0.5", "meta.test": "169.254.169.254"}
	for url, advice := range map[string]string{
		"http://db.test:5432/":           "db.test:5432",
		"http://meta.test/":              "169.254.169.254:80",
		"http://[fd00::1]:81/":           "[fd00::1]:81",
		"http://[64:ff9b::a00:1]/":       "[64:ff9b::a00:1]:80",
		"http://0.0.0.0:8000/":           "",
		"http://127.0.0.1:7777/":         "",
		"http://[::ffff:10.0.0.1]:8000/": "",
	} {
		ask := func(allow ...string) (status int, body string) {
			w := newWorld(t, own, func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }, allow...)
			for name, addr := range names {
				w.names.set(name, []string{addr})
			}
			status, body, _ = w.get(url)
			return status, body
		}
		status, body := ask()
		if status != 403 {
			t.Errorf("%s: %d %q", url, status, body)
		}
		_, entry, _ := strings.Cut(body, "--allow ")
		entry, _, _ = strings.Cut(entry, ",")
		if entry != advice {
			t.Errorf("%s: %q advises %q, want %q", url, body, entry, advice)
		}
		if advice == "" {
			continue
		}
		if status, body := ask(advice); status != 502 || !strings.Contains(body, "connection refused") {
			t.Errorf("%s with what was advised: %d %q, want it tried", url, status, body)
		}
	}
	w := newWorld(t, nil, nil)
	if _, body, _ := w.get("http://[::ffff:10.0.0.1]:8000/"); !strings.Contains(body, "write it as 10.0.0.1:8000") {
		t.Errorf("a mapped address: %q", body)
	}
}

func TestHTTP_judgesEveryRequestAnew(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/out":
			http.Redirect(w, r, "http://10.0.0.9/secret", http.StatusFound)
		default:
			fmt.Fprint(w, r.Host)
		}
	}))
	defer server.Close()
	port := portOf(t, server.Listener.Addr().String())
	// Public addresses lead to the test's server.
	w := newWorld(t, nil, func(ctx context.Context, network, addr string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	})
	w.names.set("rebind.test", []string{"93.184.216.34"}, []string{"127.0.0.1"}, []string{"10.0.0.1"})
	if status, _, _ := w.get("http://rebind.test:" + port + "/"); status != 200 {
		t.Fatalf("public: %d", status)
	}
	if w.dialled[0] != "93.184.216.34:"+port {
		t.Errorf("dialled %v: not what was judged", w.dialled)
	}
	for range 2 {
		if status, _, _ := w.get("http://rebind.test:" + port + "/"); status != 403 {
			t.Errorf("resolved to an address inside: %d", status)
		}
	}
	w.names.set("web.test", []string{"93.184.216.34"})
	if status, body, _ := w.get("http://web.test/out"); status != 403 || !strings.Contains(body, "10.0.0.9") {
		t.Errorf("a redirect to an address inside: %d %q", status, body)
	}
	// One connection of the client, two hosts.
	c := w.client()
	for _, test := range []struct {
		host string
		want int
	}{{"web.test", 200}, {"10.0.0.9", 403}, {"web.test", 200}} {
		r, err := c.Get("http://" + test.host + "/")
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
		if r.StatusCode != test.want {
			t.Errorf("%s: %d, want %d", test.host, r.StatusCode, test.want)
		}
	}
}

func TestHTTP_dialsOnlyWhatIsAllowed(t *testing.T) {
	w := newWorld(t, nil, func(ctx context.Context, _, addr string) (net.Conn, error) {
		return nil, errors.New("not today")
	})
	w.names.set("mixed.test", []string{"10.0.0.1", "93.184.216.34", "127.0.0.1", "93.184.216.35"})
	if status, _, _ := w.get("http://mixed.test/"); status != 502 {
		t.Errorf("status %d", status)
	}
	if want := []string{"93.184.216.34:80", "93.184.216.35:80"}; !slices.Equal(w.dialled, want) {
		t.Errorf("dialled %v, want %v", w.dialled, want)
	}
	w.await("end", func() bool { return len(w.ended) == 1 })
	if w.ended[0].Error == "" {
		t.Errorf("ended %+v without saying why", w.ended[0])
	}
}

func TestHTTP_anAddressThatLeadsNowhereCostsAMoment(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "here") }))
	defer server.Close()
	w := newWorld(t, nil, func(ctx context.Context, network, addr string) (net.Conn, error) {
		if strings.HasPrefix(addr, "[") {
			<-ctx.Done() // packets into the dark
			return nil, ctx.Err()
		}
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	})
	w.names.set("both.test", []string{"2606:4700::1", "2606:4700::2", "93.184.216.34"})
	began := time.Now()
	if status, body, _ := w.get("http://both.test/"); status != 200 || body != "here" {
		t.Errorf("%d %q", status, body)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	w.await("end", func() bool { return len(w.ended) == 1 })
	if w.ended[0].Address != "93.184.216.34" {
		t.Errorf("ended %+v", w.ended[0])
	}
}

func TestOwnAddressIsNeverOpen(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	own := netip.MustParseAddrPort(server.Listener.Addr().String())
	w := newWorld(t, []netip.AddrPort{own}, nil, "127.0.0.1", "localhost", "0.0.0.0/0", "8.8.4.4")
	w.names.set("localhost", []string{"127.0.0.1"})
	for _, host := range []string{"127.0.0.1", "127.0.0.2", "localhost", "8.8.4.4", "0.0.0.0"} {
		url := fmt.Sprintf("http://%s:%d/", host, own.Port())
		if status, body, _ := w.get(url); status != 403 {
			t.Errorf("%s: %d %q", url, status, body)
		}
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	if status, _, _ := w.get(other.URL); status != 404 {
		t.Errorf("another port: %d", status)
	}
}

func TestHTTP_notForAProxy(t *testing.T) {
	w := newWorld(t, nil, nil)
	for raw, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n":                                                   "400",
		"GET https://x/ HTTP/1.1\r\nHost: x\r\n\r\n":                                          "400",
		"CONNECT x HTTP/1.1\r\nHost: x\r\n\r\n":                                               "400",
		"CONNECT x:99999 HTTP/1.1\r\nHost: x\r\n\r\n":                                         "400",
		"nonsense\r\n\r\n":                                                                    "400",
		"GET http://x/ HTTP/1.1\r\nA: " + strings.Repeat("a", 80<<10) + "\r\nHost: x\r\n\r\n": "431",
	} {
		conn, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, raw)
		line, _ := bufio.NewReader(conn).ReadString('\n')
		conn.Close()
		if !strings.HasPrefix(line, "HTTP/1.1 "+want) {
			t.Errorf("%.40q: %q, want %s", raw, line, want)
		}
	}
}

func TestCurl(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "plain") }))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "secure") }))
	defer secure.Close()
	w := newWorld(t, nil, nil, "web.test")
	w.names.set("web.test", []string{"::1", "127.0.0.1"}, []string{"127.0.0.1"})
	w.names.set("db.test", []string{"10.0.0.5"})
	p, s := portOf(t, plain.Listener.Addr().String()), portOf(t, secure.Listener.Addr().String())
	for _, test := range []struct {
		name, want string
		exit       int
		args       []string
	}{
		{"http", "plain", 0, []string{"-x", "http://" + w.addr, "http://web.test:" + p}},
		{"https by CONNECT", "secure", 0, []string{"-k", "-x", "http://" + w.addr, "https://web.test:" + s}},
		{"http by CONNECT", "plain", 0, []string{"-p", "-x", "http://" + w.addr, "http://web.test:" + p}},
		{"SOCKS5, name by the proxy", "secure", 0, []string{"-k", "--socks5-hostname", w.addr, "https://web.test:" + s}},
		{"SOCKS5, an address", "(2)", 97, []string{"--socks5", w.addr, "http://10.0.0.1:80"}},
		{"SOCKS5, an IPv6 address", "(2)", 97, []string{"--socks5-hostname", w.addr, "http://[fd00::1]:80"}},
		{"CONNECT refused", "403", 56, []string{"-x", "http://" + w.addr, "https://db.test"}},
		{"SOCKS5 refused", "(2)", 97, []string{"--socks5-hostname", w.addr, "https://db.test"}},
		{"SOCKS5, no such name", "(4)", 97, []string{"--socks5-hostname", w.addr, "https://nowhere.test"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, exit := curl(t, test.args...)
			if exit != test.exit || !strings.Contains(strings.ToLower(out), strings.ToLower(test.want)) {
				t.Errorf("curl: exit %d, %q; want %d, %q", exit, out, test.exit, test.want)
			}
		})
	}
}

func TestSOCKS5_servesConnectAlone(t *testing.T) {
	w := newWorld(t, nil, nil)
	ask := func(parts ...[]byte) []byte {
		t.Helper()
		conn, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(30 * time.Second))
		conn.Write(bytes.Join(parts, nil))
		answer, _ := io.ReadAll(conn)
		return answer
	}
	greet := []byte{5, 2, 1, 0}
	to := append([]byte{5}, "a.com"...)
	to = binary.BigEndian.AppendUint16(to, 53)
	for name, test := range map[string]struct {
		parts [][]byte
		want  []byte // of the answer after the greeting's
	}{
		"BIND":                {[][]byte{greet, {5, 2, 0, 3}, to}, []byte{5, 7}},
		"UDP":                 {[][]byte{greet, {5, 3, 0, 3}, to}, []byte{5, 7}},
		"an unknown type":     {[][]byte{greet, {5, 1, 0, 9}}, []byte{5, 8}},
		"an empty name":       {[][]byte{greet, {5, 1, 0, 3, 0, 0, 80}}, []byte{5, 8}},
		"no such name":        {[][]byte{greet, {5, 1, 0, 3}, to}, []byte{5, 4}},
		"a name that is none": {[][]byte{greet, {5, 1, 0, 3, 3, 'a', ' ', 'b', 0, 80}}, []byte{5, 2}},
	} {
		answer := ask(test.parts...)
		if len(answer) < 4 || !bytes.Equal(answer[:2], []byte{5, 0}) || !bytes.Equal(answer[2:4], test.want) {
			t.Errorf("%s: % x, want 05 00 % x", name, answer, test.want)
		}
	}
	if answer := ask([]byte{5, 1, 2}); !bytes.Equal(answer, []byte{5, 0xff}) {
		t.Errorf("with a password alone: % x", answer)
	}
	w.await("refusals", func() bool { return len(w.decided) == 4 })
}
