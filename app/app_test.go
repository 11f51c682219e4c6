package app

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/store"
)

func TestListen_loopbackOnly(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", ":0", "192.0.2.1:0", "example.com:0", "127.evil.com:0", "nonsense"} {
		l, err := listen(addr, "")
		if err == nil {
			l.Close()
		}
		if field := new(sandbox.FieldError); !errors.As(err, &field) || field.Field != "addr" {
			t.Errorf("listen(%q) = %v, want a fault of addr", addr, err)
		}
	}
	for _, addr := range []string{"127.0.0.1:0", "localhost:0"} {
		l, err := listen(addr, "")
		if err != nil {
			t.Errorf("listen(%q) = %v", addr, err)
			continue
		}
		l.Close()
	}
}

// A server that cannot listen has made nothing, and says so in one sentence; where
// a server of the same data directory listens there, that is what it says.
func TestServe_takenAddress(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	addr := strings.TrimPrefix(s.base, "http://")
	other := dataDir(t)
	for data, want := range map[string]string{
		other:  "glovebox: another program listens on " + addr + "; choose another --addr, or port 0 for a free one\n",
		s.data: "in use by process",
	} {
		out, err := glovebox("serve", "--no-open", "--addr", addr, "--data", data).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("serve on a taken address: %v, printed %q, want %q in it", err, out, want)
		}
	}
	if _, err := os.Stat(other); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data directory of the server that did not start: %v", err)
	}
}

// Beyond loopback it listens only where somebody says by which address people
// come, and that is the one other address that it answers to.
func TestListen_expose(t *testing.T) {
	for _, bad := range []string{"127.0.0.1:80", "https://h:1", "http://", "http://h:1/", "http://u:p@h:1", "http://h:1/x", "http://h:1?x"} {
		l, err := listen("127.0.0.1:0", bad)
		if err == nil {
			l.Close()
		}
		if field := new(sandbox.FieldError); !errors.As(err, &field) || field.Field != "expose" {
			t.Errorf("listen with expose %q = %v, want a fault of expose", bad, err)
		}
	}
	data := dataDir(t)
	cmd := glovebox("serve", "--json", "--no-open", "--addr", "0.0.0.0:0", "--expose", "http://box.test:9000", "--data", data)
	s := startCommand(t, data, cmd)
	if s.base != "http://box.test:9000" {
		t.Errorf("the ready line says %s", s.base)
	}
	owner, ok := store.Peek(data)
	if !ok || !strings.HasPrefix(owner.URL, "http://127.0.0.1:") {
		t.Fatalf("the lock says %+v", owner)
	}
	s.base = owner.URL // as verbs find it
	_, port, _ := strings.Cut(strings.TrimPrefix(owner.URL, "http://"), ":")
	for host, want := range map[string]int{
		"box.test:9000": 401, "127.0.0.1:" + port: 401, "box.test:" + port: 421, "0.0.0.0:" + port: 421, "evil.test:9000": 421, "box.test": 421,
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", owner.URL+"/api/v1/sessions", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("Host %s without a token: %d, want %d", host, answer.StatusCode, want)
		}
	}
}

func TestIdentity_isMadeOnceAndPrivate(t *testing.T) {
	dir := t.TempDir()
	first, err := loadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := loadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	if first.instance != second.instance || first.token != second.token || string(first.secret) != string(second.secret) {
		t.Error("the identity changed between two starts")
	}
	if len(first.secret) != 32 || len(first.token) != 64 || first.token == first.instance {
		t.Errorf("secret of %d bytes, token of %d characters", len(first.secret), len(first.token))
	}
	for _, name := range []string{"secret", tokenFile, "instance"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", name, info.Mode().Perm())
		}
	}
	if next, err := renew(dir, tokenFile, tokenBytes); err != nil || next == first.token {
		t.Errorf("renew() = the same token, %v", err)
	}
}

func TestPrintable_cannotDriveATerminal(t *testing.T) {
	for in, want := range map[string]string{
		"plain é 日本\n\t":     "plain é 日本\n\t",
		"\x1b[31mred\x1b[0m": "[31mred[0m",
		"\x1b]0;title\a":     "]0;title",
		"\u009b2J\x7f\r":     "2J",
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}
