package app

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// siteCertificate is a certificate for names by an authority of the test's own,
// and that authority's as PEM.
func siteCertificate(t *testing.T, names ...string) (tls.Certificate, []byte) {
	t.Helper()
	sign := func(c, parent *x509.Certificate, key, by *ecdsa.PrivateKey) []byte {
		c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority := &x509.Certificate{Subject: pkix.Name{CommonName: "authority " + rand.Text()}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	ca := sign(authority, authority, authorityKey, authorityKey)
	site := &x509.Certificate{Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der := sign(site, authority, key, authorityKey)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca})
}

// shelves serves one package of each kind, all of which say the same: /npm/ is a
// registry, /apt/ a repository and /pip/ an index.
func shelves(t *testing.T, mux *http.ServeMux) {
	t.Helper()
	serve := func(path string, body []byte) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { w.Write(body) })
	}

	var tgz bytes.Buffer
	z := gzip.NewWriter(&tgz)
	tw := tar.NewWriter(z)
	for name, text := range map[string]string{
		"package/package.json": `{"name":"probe","version":"1.0.0","main":"index.js"}`,
		"package/index.js":     `module.exports = "from a registry"`,
	} {
		if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(tw, text)
	}
	tw.Close()
	z.Close()
	sum := sha512.Sum512(tgz.Bytes())
	serve("/npm/probe/-/probe-1.0.0.tgz", tgz.Bytes())
	mux.HandleFunc("/npm/probe", func(w http.ResponseWriter, r *http.Request) {
		scheme := map[bool]string{true: "https://", false: "http://"}[r.TLS != nil]
		json.NewEncoder(w).Encode(map[string]any{
			"name": "probe", "dist-tags": map[string]string{"latest": "1.0.0"},
			"versions": map[string]any{"1.0.0": map[string]any{"name": "probe", "version": "1.0.0", "dist": map[string]string{
				"tarball": scheme + r.Host + "/npm/probe/-/probe-1.0.0.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
			}}},
		})
	})

	var wheel bytes.Buffer
	zw := zip.NewWriter(&wheel)
	for name, text := range map[string]string{
		"probe.py":                       "said = 'from an index'\n",
		"probe-1.0.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: probe\nVersion: 1.0.0\n",
		"probe-1.0.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"probe-1.0.0.dist-info/RECORD":   "probe.py,,\nprobe-1.0.0.dist-info/METADATA,,\nprobe-1.0.0.dist-info/WHEEL,,\nprobe-1.0.0.dist-info/RECORD,,\n",
	} {
		w, err := zw.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, text)
	}
	zw.Close()
	serve("/pip/probe-1.0.0-py3-none-any.whl", wheel.Bytes())
	mux.HandleFunc("/pip/probe/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, `<!DOCTYPE html><a href="/pip/probe-1.0.0-py3-none-any.whl">probe-1.0.0-py3-none-any.whl</a>`)
	})

	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		return
	}
	dir := t.TempDir()
	script := `mkdir -p p/DEBIAN p/usr/share/probe && echo from a repository >p/usr/share/probe/said &&
		printf 'Package: probe\nVersion: 1.0.0\nArchitecture: all\nMaintainer: t <t@t>\nDescription: probe\n' >p/DEBIAN/control && dpkg-deb --root-owner-group -b p probe.deb`
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a package: %v\n%s", err, out)
	}
	deb, err := os.ReadFile(filepath.Join(dir, "probe.deb"))
	if err != nil {
		t.Fatal(err)
	}
	list := fmt.Appendf(nil, "Package: probe\nVersion: 1.0.0\nArchitecture: all\nMaintainer: t <t@t>\nFilename: ./probe.deb\nSize: %d\nSHA256: %x\nDescription: probe\n\n", len(deb), sha256.Sum256(deb))
	serve("/apt/probe.deb", deb)
	serve("/apt/Packages", list)
	serve("/apt/Release", fmt.Appendf(nil, "Date: %s\nSHA256:\n %x %d Packages\n", time.Now().UTC().Format(time.RFC1123), sha256.Sum256(list), len(list)))
}

// The programs that people fetch things by work through the relay without a
// setting, on both walls, in plain and by TLS; each of their connections is in the
// record. A program that speaks to the network itself reaches nothing.
func TestEgress_programs(t *testing.T) {
	n := ownNetwork(t)
	if n == nil {
		return
	}
	strays := n.strays(theirPublic+":53", "["+their6+"]:53")
	mux := http.NewServeMux()
	mux.Handle("/repo.git/", gitRepository(t))
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello from outside\n") })
	shelves(t, mux)
	cert, authority := siteCertificate(t, "web.test")
	_, other := siteCertificate(t, "web.test")
	n.serve(theirPublic+":8000", mux, nil)
	n.serve(theirPublic+":8443", mux, &tls.Config{Certificates: []tls.Certificate{cert}})

	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		s := start(t, dataDir(t))
		ws := workspace(t, 1000)
		for name, body := range map[string][]byte{"ca.pem": authority, "other.pem": other} {
			if err := os.WriteFile(filepath.Join(ws, name), body, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		id := s.open(httpapi.OpenRequest{Workspace: ws, Spec: sandbox.Spec{Wall: wall, Mounts: hostPrograms(wall)}})
		s.awaitState(id, time.Minute, sandbox.StateReady)
		const apt = "apt-get -q -o Dir::State=/tmp/apt/state -o Dir::State::status=/tmp/apt/status -o Dir::Cache=/tmp/apt/cache -o Dir::Etc=/tmp/apt/etc -o Dir::Log=/tmp/apt/log "
		used := map[uint16]int{} // programs that reached a port
		for _, test := range []struct {
			name, program, command, want string
			port                         uint16 // of web.test
		}{
			{"curl by https", "curl", "curl -sS --cacert ca.pem https://web.test:8443/", "hello from outside", 8443},
			{"curl takes no other certificate", "curl", "curl -sS --cacert other.pem https://web.test:8443/; echo $?", "\n60", 8443},
			{"git by https", "git", "cd /tmp && git -c http.sslCAInfo=/workspace/ca.pem clone -q https://web.test:8443/repo.git g && cat g/file", "from a repository", 8443},
			{"npm", "npm", "mkdir /tmp/n && cd /tmp/n && echo {} >package.json && npm install --no-audit --no-fund --registry http://web.test:8000/npm/ probe && node -p 'require(\"probe\")'", "from a registry", 8000},
			{"npm by https", "npm", "mkdir /tmp/m && cd /tmp/m && echo {} >package.json && npm install --no-audit --no-fund --cafile /workspace/ca.pem --registry https://web.test:8443/npm/ probe && node -p 'require(\"probe\")'", "from a registry", 8443},
			{"apt", "apt-get", "mkdir -p /tmp/apt/state/lists/partial /tmp/apt/cache/archives/partial /tmp/apt/etc/apt.conf.d /tmp/apt/etc/preferences.d /tmp/apt/log && cd /tmp/apt && touch status && " +
				"echo 'deb [trusted=yes] http://web.test:8000/apt ./' >etc/sources.list && " + apt + "update && " + apt + "download probe && /usr/bin/dpkg-deb -x probe_*.deb out && cat out/usr/share/probe/said", "from a repository", 8000},
			{"pip", "pip3", "/usr/bin/python3 -m pip install -q --disable-pip-version-check --no-cache-dir --break-system-packages --target /tmp/pip --cert ca.pem --index-url https://web.test:8443/pip/ probe && PYTHONPATH=/tmp/pip /usr/bin/python3 -c 'import probe; print(probe.said)'", "from an index", 8443},
		} {
			t.Run(test.name, func(t *testing.T) {
				installed(t, test.program)
				s := s.in(t)
				used[test.port]++
				if r := s.bash(id, "exec 2>&1; "+test.command); !strings.Contains(r.Text, test.want) {
					t.Errorf("%s\nsays %q, want %q", test.command, r.Text, test.want)
				}
			})
		}
		until(t, 40*time.Second, func() error { // equal decisions are told together, after a while
			for port, least := range used {
				if n := s.allowed(id, "web.test", port); n < least {
					return fmt.Errorf("the record says %d connections to web.test:%d, for %d programs", n, port, least)
				}
			}
			return nil
		})
		t.Run("sockets", func(t *testing.T) {
			installed(t, "python3")
			s := s.in(t)
			if err := os.WriteFile(filepath.Join(ws, "sockets.py"), []byte(fmt.Sprintf(socketsProgram, theirPublic, their6, ourPublic, our6)), 0o644); err != nil {
				t.Fatal(err)
			}
			r := s.bash(id, "/usr/bin/python3 sockets.py 2>&1")
			lines := strings.Split(strings.TrimSpace(r.Text), "\n")
			if len(lines) != 13 {
				t.Fatalf("it says %q", r.Text)
			}
			for _, line := range lines {
				if !strings.Contains(line, "ENETUNREACH") && !strings.Contains(line, "ECONNREFUSED") && !strings.Contains(line, "EPERM") && !strings.Contains(line, "gaierror") && !strings.Contains(line, "EADDRNOTAVAIL") {
					t.Error(line)
				}
			}
			if got := strays.Load(); got > 0 {
				t.Errorf("%d packets by UDP came out", got)
			}
		})
	})
}

// socketsProgram tries whatever a program can try by itself, and prints a line
// for each: what it was, and how it ended.
const socketsProgram = `import errno, socket
v4, v6, our4, our6 = %q, %q, %q, %q
def attempt(what, f):
    try:
        print(what, "REACHED", f())
    except socket.gaierror:
        print(what, "gaierror")
    except OSError as e:
        print(what, errno.errorcode.get(e.errno, str(e)))
def tcp(family, host, port):
    def f():
        s = socket.socket(family, socket.SOCK_STREAM)
        s.settimeout(5)
        return s.connect((host, port))
    return f
def udp(family, host, port):
    def f():
        return socket.socket(family, socket.SOCK_DGRAM).sendto(b"x", (host, port))
    return f
I4, I6 = socket.AF_INET, socket.AF_INET6
attempt("tcp to an address", tcp(I4, v4, 8000))
attempt("tcp to an address by IPv6", tcp(I6, v6, 8000))
attempt("udp to a resolver", udp(I4, v4, 53))
attempt("udp to a resolver by IPv6", udp(I6, v6, 53))
attempt("a name", lambda: socket.getaddrinfo("web.test.example", 80))
attempt("tcp to this machine", tcp(I4, our4, 8000))
attempt("tcp to this machine by IPv6", tcp(I6, our6, 8000))
attempt("the engine's gateway", tcp(I4, "172.17.0.1", 80))
attempt("this machine's loopback", tcp(I4, "127.0.0.1", 8000))
attempt("metadata", tcp(I4, "169.254.169.254", 80))
attempt("broadcast", udp(I4, "255.255.255.255", 67))
attempt("multicast", udp(I4, "224.0.0.251", 5353))
attempt("ping", lambda: socket.socket(I4, socket.SOCK_RAW, socket.IPPROTO_ICMP).sendto(b"x", (v4, 0)))
`

// allowed counts the connections to a host that a session's record says were let
// through.
func (s *server) allowed(id, host string, port uint16) (n int) {
	s.t.Helper()
	for _, r := range s.egress(id) {
		if d := r.Decided; d.Allowed && d.Host == host && d.Port == port {
			n += d.Count
		}
	}
	return n
}
