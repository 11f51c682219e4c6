package docker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// authority signs certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// sign returns a certificate for 127.0.0.1 and its key, as PEM.
func (a *authority) sign(t *testing.T) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "x"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &k.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	body, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: body})
}

// files writes what a client is given into dir.
func (a *authority) files(t *testing.T, dir string, withKey bool) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{"ca.pem": a.pem}
	if withKey {
		all["cert.pem"], all["key.pem"] = a.sign(t)
	}
	for name, body := range all {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// An engine behind TLS is spoken to with the files of the environment or of the
// context, and each way to be refused says what to do.
func TestTLS(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	server := httptest.NewUnstartedServer(&stubEngine{newest: "1.41", oldest: "1.12"})
	cert, key := ours.sign(t)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ours.cert)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	addr := server.Listener.Addr().String()
	plain := httptest.NewServer(&stubEngine{newest: "1.41", oldest: "1.12"})
	t.Cleanup(plain.Close)

	good := ours.files(t, t.TempDir(), true)
	config := t.TempDir()
	meta := filepath.Join(config, "contexts", "meta", sha256hex("safe"))
	if err := os.MkdirAll(meta, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(meta, "meta.json"), []byte(`{"Name":"safe","Endpoints":{"docker":{"Host":"tcp://`+addr+`"}}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	ours.files(t, filepath.Join(config, "contexts", "tls", sha256hex("safe"), "docker"), true)
	t.Setenv("DOCKER_CONFIG", config)

	for _, test := range []struct {
		name, host, context, certs, verify string
		says                               string // "" for an engine that answers
	}{
		{name: "files of the environment", host: "tcp://" + addr, certs: good, verify: "1"},
		{name: "files of the context", context: "safe"},
		{name: "without a check of the engine", host: "tcp://" + addr, certs: theirs.files(t, t.TempDir(), false) /* and no key */, says: "refuses our certificate"},
		{name: "another's authority", host: "tcp://" + addr, certs: theirs.files(t, t.TempDir(), true), verify: "1", says: "not trusted"},
		{name: "no TLS where it is wanted", host: "tcp://" + addr, says: "wants TLS"},
		{name: "TLS where there is none", host: "tcp://" + strings.TrimPrefix(plain.URL, "http://"), certs: good, verify: "1", says: "speaks no TLS"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("DOCKER_HOST", test.host)
			t.Setenv("DOCKER_CONTEXT", test.context)
			t.Setenv("DOCKER_CERT_PATH", test.certs)
			t.Setenv("DOCKER_TLS_VERIFY", test.verify)
			p := stubProvider(t, "")
			info, err := p.Ping(t.Context())
			if test.says == "" {
				if err != nil || info.Version != "stub" {
					t.Errorf("Ping = %+v, %v", info, err)
				}
				return
			}
			if !errors.Is(err, sandbox.ErrUnreachable) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("Ping = %v; want %v that says %q", err, sandbox.ErrUnreachable, test.says)
			}
		})
	}
}

// A socket that this user may not open says which group to join.
func TestPermission(t *testing.T) {
	e := endpoint{host: "unix:///var/run/docker.sock"}
	err := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", os.ErrPermission)}
	if got := e.refusal(err); !strings.Contains(got, "usermod -aG docker") {
		t.Errorf("refusal = %q", got)
	}
}

// withSSH puts a command called ssh before the others: it notes its arguments and
// runs what it is asked to on this machine.
func withSSH(t *testing.T, script string) (asked string) {
	t.Helper()
	dir := t.TempDir()
	asked = filepath.Join(dir, "asked")
	body := "#!/bin/sh\necho \"$*\" >>" + asked + "\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(body), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return asked
}

func TestSSH_says(t *testing.T) {
	withSSH(t, "echo 'me@far: Permission denied (publickey).' >&2; exit 255")
	p := stubProvider(t, "ssh://me@far")
	_, err := p.Ping(t.Context())
	if !errors.Is(err, sandbox.ErrUnreachable) || !strings.Contains(err.Error(), "Permission denied (publickey)") || !strings.Contains(err.Error(), "ssh far docker version") {
		t.Errorf("Ping = %v", err)
	}
	withSSH(t, "exec sleep 60")
	begun := time.Now()
	if _, err := stubProvider(t, "ssh://me@far").Ping(t.Context()); !errors.Is(err, sandbox.ErrUnreachable) || time.Since(begun) > 30*time.Second {
		t.Errorf("Ping of an ssh that hangs = %v after %v", err, time.Since(begun))
	}
}

// On another machine's engine a sandbox has its own workspace, and nothing of this
// machine can be mounted.
func TestRemoteEngine(t *testing.T) {
	needEngine(t, ownProvider(t))
	if _, err := exec.LookPath("docker"); err != nil {
		t.Skip(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	port, asked, otherKey := realSSH(t)
	host := fmt.Sprintf("ssh://%s@far:%d/var/run/docker.sock", me.Username, port)
	p := newProviderOn(t, Options{Host: host}, t.TempDir(), "test-"+newGuestID()[:10])
	t.Cleanup(func() {
		if left := leftOf(t, p); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
	info, err := p.Ping(t.Context())
	if err != nil || info.Channel != "exec" || info.Mounts || info.Why != "the docker host setting" {
		t.Errorf("Ping = %+v, %v", info, err)
	}
	if line, _ := os.ReadFile(asked); !strings.Contains(string(line), "BatchMode=yes") || !strings.Contains(string(line), fmt.Sprintf("-l %s -p %d -- far docker --host unix:///var/run/docker.sock system dial-stdio", me.Username, port)) {
		t.Errorf("ssh was asked %q", line)
	}
	for field, spec := range map[string]sandbox.Spec{
		"workspace":        {Workspace: t.TempDir()},
		"mounts[0].source": {Mounts: []sandbox.Mount{{Source: t.TempDir(), Target: "/x"}}},
	} {
		_, err := p.Allocate(t.Context(), "root", spec)
		var fault *sandbox.FieldError
		if !errors.As(err, &fault) || fault.Field != field || !strings.Contains(fault.Reason, "another machine") {
			t.Errorf("Allocate of a %s = %v", field, err)
		}
	}
	h := mustAllocate(t, p, sandbox.Spec{})
	t.Cleanup(func() { p.Release(context.WithoutCancel(t.Context()), "root") })
	if got, code := run(t, p, h, "id -u; pwd; echo kept >m; echo kept >~/m"); code != 0 || got != "1000\n/workspace" {
		t.Errorf("a command says %q, %d", got, code)
	}
	if err := p.Stop(t.Context(), refOf(t, h)); err != nil {
		t.Fatal(err)
	}
	if h, err = p.Attach(t.Context(), refOf(t, h)); err != nil {
		t.Fatal(err)
	}
	if got, _ := run(t, p, h, "cat m ~/m"); got != "kept\nkept" {
		t.Errorf("after a stop: %q", got)
	}
	if err := p.Release(t.Context(), "root"); err != nil {
		t.Fatal(err)
	}
	otherKey()
	if _, err := stubProvider(t, host).Ping(t.Context()); !errors.Is(err, sandbox.ErrUnreachable) || !strings.Contains(err.Error(), "Permission denied (publickey)") {
		t.Errorf("Ping with a key that the other side does not know = %v", err)
	}
}

// An engine that hangs hangs nobody who dials a guest through it.
func TestExecChannel_hangingEngine(t *testing.T) {
	p := stubProvider(t, hangingEngine(t))
	begun := time.Now()
	if _, err := p.hijack(deadline(t, time.Second), "/exec/x/start", "{}"); err == nil || time.Since(begun) > 30*time.Second {
		t.Errorf("hijack = %v after %v", err, time.Since(begun))
	}
}

func deadline(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
