package remote_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/sandbox/remote"
)

const keyEnv = "GLOVEBOX_TEST_REMOTE_KEY"

// buildGuest builds the guest's binary.
func buildGuest(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "glovebox-guest")
	cmd := exec.Command("go", "build", "-o", bin, "github.com/glovebox-dev/glovebox/backend/guest/cmd/glovebox-guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the guest: %v\n%s", err, out)
	}
	return bin
}

// serve starts a guest that stands alone and returns its URL. It has ended when
// the returned function returns.
func serve(t *testing.T, bin, key string, args ...string) (url string, end func()) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(bin, append([]string{"serve", "--workdir", dir, "--state", filepath.Join(dir, ".state"), "--key-env", "K"}, args...)...)
	cmd.Env = append(os.Environ(), "K="+key)
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		timer := time.AfterFunc(15*time.Second, func() {
			t.Error("the guest did not end on SIGTERM")
			cmd.Process.Kill()
		})
		defer timer.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the guest: %v\n%s", err, &log)
		}
	}
	t.Cleanup(end)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the guest said nothing: %v\n%s", err, &log)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on ")), end
}

// A guest is reached by its URL with the key of its variable, says what it is
// called, runs commands, and is the same for two who know it.
func TestProvider_guest(t *testing.T) {
	bin := buildGuest(t)
	url, end := serve(t, bin, "long and random", "--listen", "127.0.0.1:0", "--id", "far-away")
	t.Setenv(keyEnv, "long and random")
	p := remote.New(remote.Options{Config: sandbox.RemoteConfig{BaseURL: url, APIKeyEnv: keyEnv}})

	h, err := p.Allocate(t.Context(), "s-one", sandbox.Spec{Wall: sandbox.WallRemote})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := h.Ref()
	if err != nil || ref != sandbox.Ref(url+"#far-away") {
		t.Errorf("Ref() = %q, %v", ref, err)
	}
	hostname, _ := os.Hostname()
	if h.ShortID != hostname || h.Workdir == "" {
		t.Errorf("handle %+v", h)
	}
	again, err := p.Attach(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []sandbox.Handle{h, again} {
		c := client.New(client.Options{Dial: h.Dial, GuestID: h.GuestID})
		o, err := c.Run(t.Context(), execenv.Caller{}, execenv.Command{Argv: []string{"sh", "-c", `echo "$K|" >>f; cat f`}}, nil)
		if err != nil || strings.Contains(string(o.Stdout.Head), "random") || !strings.HasPrefix(string(o.Stdout.Head), "|\n") {
			t.Errorf("Run() = %q, %v; the key is not for commands", o.Stdout.Head, err)
		}
		c.Close()
	}
	if err := p.Release(t.Context(), "s-one"); err != nil {
		t.Error(err)
	}
	if c, err := p.Inspect(t.Context(), ref); err != nil || c.Value != sandbox.StateReady || c.ObservedAt.IsZero() {
		t.Errorf("after a release: %+v, %v", c, err)
	}
	d, err := p.Describe(t.Context(), ref)
	if err != nil || len(d.Notes) == 0 || !strings.HasPrefix(d.Notes[0], "Shared:") {
		t.Errorf("Describe() = %+v, %v", d, err)
	}
	if _, err := p.Attach(t.Context(), sandbox.Ref(url+"#another")); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("another guest's ref: %v, want ErrGone", err)
	}

	// The key is read at every connection.
	t.Setenv(keyEnv, "wrong")
	_, err = p.Attach(t.Context(), ref)
	if !errors.Is(err, sandbox.ErrUnauthorized) || !errors.Is(err, sandbox.ErrUnreachable) || !strings.Contains(err.Error(), keyEnv) || strings.Contains(err.Error(), "wrong") {
		t.Errorf("a wrong key: %v, want one that names the variable", err)
	}
	t.Setenv(keyEnv, "long and random")
	end()
	if _, err := p.Inspect(t.Context(), ref); !errors.Is(err, sandbox.ErrUnreachable) {
		t.Errorf("a guest that has ended: %v, want ErrUnreachable", err)
	}
}

// A listener that others can reach wants a key; one on this machine need not.
func TestGuest_listens(t *testing.T) {
	bin := buildGuest(t)
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:80", "host.example:80"} {
		out, err := exec.Command(bin, "serve", "--listen", addr, "--state", t.TempDir()).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "needs a key") {
			t.Errorf("--listen %s without a key: %v, %s", addr, err, out)
		}
	}
	url, _ := serve(t, bin, "", "--listen", "127.0.0.1:0")
	t.Setenv(sandbox.DefaultKeyEnv, "")
	if _, err := remote.New(remote.Options{}).Allocate(t.Context(), "s", sandbox.Spec{BaseURL: url}); err != nil {
		t.Errorf("a guest without a key: %v", err)
	}
	socket := filepath.Join(t.TempDir(), "g.sock")
	said, end := serve(t, bin, "", "--listen", socket)
	if said != socket {
		t.Errorf("a socket: %q", said)
	}
	end()
}

// server is an AIO server as a provider sees it.
type server struct{ ping error }

func (s server) Ping(context.Context) error { return s.ping }
func (s server) About(context.Context) (string, string, string, error) {
	return "aio-host", "/home/gem", "No fence.", nil
}

// A server that speaks HTTP is an AIO server, and has a bare address.
func TestProvider_server(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	var asked []sandbox.Auth
	s := server{}
	p := remote.New(remote.Options{
		Config: sandbox.RemoteConfig{BaseURL: "http://127.0.0.1:1", APIKeyEnv: "MINE"},
		Server: func(_ string, auth sandbox.Auth) (remote.Server, error) {
			asked = append(asked, auth)
			return s, nil
		},
	})
	h, err := p.Allocate(t.Context(), "s", sandbox.Spec{BaseURL: web.URL + "/"})
	if err != nil {
		t.Fatal(err)
	}
	if h.Wire != sandbox.WireAIO || h.SandboxID != "" || h.ShortID != "aio-host" || h.Workdir != "/home/gem" || h.Dial != nil || h.Greet == nil {
		t.Errorf("handle %+v", h)
	}
	if ref, _ := h.Ref(); ref != sandbox.Ref(web.URL) {
		t.Errorf("Ref() = %q", ref)
	}
	if asked[0].(sandbox.StaticAPIKey).Variable() == "MINE" {
		t.Error("the configured key went to another URL")
	}
	s.ping = fmt.Errorf("no: %w", sandbox.ErrUnauthorized)
	if _, err := p.Attach(t.Context(), sandbox.Ref(web.URL)); !errors.Is(err, sandbox.ErrUnauthorized) || !errors.Is(err, sandbox.ErrUnreachable) {
		t.Errorf("Attach() = %v", err)
	}
}

// What is silent, closed or something else is told apart from what is gone, and
// in time.
func TestProvider_unreachable(t *testing.T) {
	p := remote.New(remote.Options{})
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	odd, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer odd.Close()
	go func() { // ends with its listener
		for {
			c, err := odd.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "220 mail\r\n")
			c.Close()
		}
	}()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, l := range []net.Listener{silent, odd, closed} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if _, err := p.Attach(ctx, sandbox.Ref("http://"+l.Addr().String())); !errors.Is(err, sandbox.ErrUnreachable) || ctx.Err() != nil {
			t.Errorf("Attach() = %v, want ErrUnreachable in time", err)
		}
		cancel()
	}
	for _, ref := range []sandbox.Ref{"", "docker:///var/run/docker.sock#x", "http://u:secret@h#x", "ftp://h#x", "http://h?api_key=secret#x"} {
		if _, err := p.Attach(t.Context(), ref); !errors.Is(err, sandbox.ErrRef) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Attach(%q) = %v, want ErrRef", ref, err)
		}
	}
}

// What a sandbox that is there already cannot be given is refused by name.
func TestProvider_checksSpecs(t *testing.T) {
	p := remote.New(remote.Options{})
	ok := sandbox.Spec{Wall: sandbox.WallRemote, BaseURL: "http://127.0.0.1:1"}
	if err := p.Check(t.Context(), ok); err != nil {
		t.Error(err)
	}
	for field, spec := range map[string]sandbox.Spec{
		"base_url":     {},
		"image":        {BaseURL: ok.BaseURL, Image: "x"},
		"user":         {BaseURL: ok.BaseURL, User: "root"},
		"mounts":       {BaseURL: ok.BaseURL, Mounts: []sandbox.Mount{{Source: "/a", Target: "/b"}}},
		"resources":    {BaseURL: ok.BaseURL, Resources: map[string]string{"memory": "1g"}},
		"network.mode": {BaseURL: ok.BaseURL, Network: sandbox.Network{Mode: sandbox.NetworkNone}},
	} {
		err := p.Check(t.Context(), spec)
		if !errors.Is(err, sandbox.ErrSpec) || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v, want a refusal by its name", field, err)
		}
	}
}
