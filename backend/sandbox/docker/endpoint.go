package docker

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/docker/client"
	"github.com/docker/go-connections/tlsconfig"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// defaultSocket is where a rootful engine listens.
const defaultSocket = "/var/run/docker.sock"

// endpoint is the address of an engine, why it is that one, and what it takes to
// speak with it.
type endpoint struct {
	host string      // unix:///var/run/docker.sock, tcp://far:2376, ssh://me@far
	why  string      // for people: "DOCKER_HOST"
	tls  *tls.Config // of a tcp endpoint that wants it
	ssh  sshTarget   // of an ssh endpoint

	fault error // why there is none: what was set names no engine
}

// sockets are where engines of this machine listen when nobody says where.
type sockets struct {
	docker  string   // of a rootful engine
	inHome  []string // of Docker Desktop, below the home directory
	podman  string   // of a rootful podman
	runtime string   // the user's own runtime directory; "" for none
}

func usualSockets() sockets {
	return sockets{
		docker:  defaultSocket,
		inHome:  []string{".docker/desktop/docker.sock", ".docker/run/docker.sock"},
		podman:  podmanSocket,
		runtime: os.Getenv("XDG_RUNTIME_DIR"),
	}
}

// find returns the first socket that is there, else where a rootful engine would
// have its own.
func (s sockets) find() endpoint {
	type place struct{ path, why string }
	all := []place{{s.docker, "the default socket"}}
	if s.runtime != "" {
		all = append(all, place{filepath.Join(s.runtime, "docker.sock"), "the rootless engine's socket"})
	}
	if home, err := os.UserHomeDir(); err == nil {
		for _, path := range s.inHome {
			all = append(all, place{filepath.Join(home, path), "the socket of Docker Desktop"})
		}
	}
	if s.runtime != "" {
		all = append(all, place{filepath.Join(s.runtime, "podman", "podman.sock"), "the socket of the user's podman"})
	}
	all = append(all, place{s.podman, "podman's socket"})
	for _, p := range all {
		if exists(p.path) {
			return endpoint{host: "unix://" + p.path, why: p.why}
		}
	}
	return endpoint{host: "unix://" + all[0].path, why: all[0].why}
}

// What can name an engine, as people are told; of a context the name follows.
const (
	whySetting = "the docker host setting"
	whyHost    = "DOCKER_HOST"
	whyContext = "DOCKER_CONTEXT"
	whyCurrent = "the current docker context"
)

// findEndpoint chooses the engine like the docker command does, after the
// product's own setting: setting, DOCKER_HOST, DOCKER_CONTEXT, the current
// context, the default socket, a rootless engine's socket, Docker Desktop's,
// podman's. The error names what was set, and what to do about it; then the
// endpoint has only its why.
func findEndpoint(setting string, usual sockets) (endpoint, error) {
	if setting != "" {
		return fromEnvironment(setting, whySetting)
	}
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		return fromEnvironment(host, whyHost)
	}
	if name := os.Getenv("DOCKER_CONTEXT"); name != "" {
		return contextEndpoint(name, whyContext)
	}
	name, err := currentContext()
	if err != nil {
		return endpoint{why: "the docker configuration"}, err
	}
	if name != "" && name != "default" {
		return contextEndpoint(name, whyCurrent)
	}
	return usual.find(), nil
}

// podmanSocket is where a rootful podman listens.
const podmanSocket = "/run/podman/podman.sock"

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// fromEnvironment is the endpoint of an address, with the TLS settings that the
// docker command reads from the environment: DOCKER_CERT_PATH names a directory,
// and DOCKER_TLS_VERIFY says that the engine's certificate is checked.
func fromEnvironment(host, why string) (endpoint, error) {
	e, err := checkEndpoint(endpoint{host: host, why: why})
	if err != nil || !e.overTCP() {
		return e, err
	}
	dir, verify := os.Getenv("DOCKER_CERT_PATH"), os.Getenv("DOCKER_TLS_VERIFY") != ""
	if dir == "" && !verify {
		if strings.HasPrefix(host, "https://") {
			e.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		return e, nil
	}
	if dir == "" {
		dir = dockerConfigDir()
	}
	if e.tls, err = tlsFrom(dir, !verify); err != nil {
		return e, fmt.Errorf("use TLS with the engine at %s: %w; see DOCKER_CERT_PATH", host, err)
	}
	return e, nil
}

// tlsFrom reads ca.pem, cert.pem and key.pem of a directory, as far as they are
// there: an engine may ask for no certificate of ours, or have one that the
// system trusts.
func tlsFrom(dir string, skipVerify bool) (*tls.Config, error) {
	options := tlsconfig.Options{InsecureSkipVerify: skipVerify, ExclusiveRootPools: true}
	for name, to := range map[string]*string{"ca.pem": &options.CAFile, "cert.pem": &options.CertFile, "key.pem": &options.KeyFile} {
		if path := filepath.Join(dir, name); exists(path) {
			*to = path
		}
	}
	if (options.CertFile == "") != (options.KeyFile == "") {
		return nil, fmt.Errorf("%s has one of cert.pem and key.pem without the other", dir)
	}
	return tlsconfig.Client(options)
}

// overTCP reports whether an endpoint is reached by TCP.
func (e endpoint) overTCP() bool {
	scheme, _, _ := strings.Cut(e.host, "://")
	return scheme == "tcp" || scheme == "http" || scheme == "https"
}

// remote reports whether the engine may be on another machine: then what is on
// this one cannot be mounted.
func (e endpoint) remote() bool { return e.socket() == "" && e.fault == nil }

// checkEndpoint refuses addresses that the provider cannot serve.
func checkEndpoint(e endpoint) (endpoint, error) {
	e, err := parseEndpoint(e)
	if err != nil {
		return e, err
	}
	// What is no part of a reference, or of a URL, could not be worked with later.
	_, err = sandbox.EncodeRef(e.baseURL(), "id")
	if err == nil {
		_, err = e.client()
	}
	if err != nil {
		return e, fmt.Errorf("%s is %q: %w; write unix:///path/to/docker.sock, tcp://HOST:PORT or ssh://USER@HOST", e.why, redacted(e.host), err)
	}
	return e, nil
}

func parseEndpoint(e endpoint) (endpoint, error) {
	scheme, addr, found := strings.Cut(e.host, "://")
	switch {
	case !found || addr == "":
		return e, fmt.Errorf("%s is %q, which has no scheme; write unix:///path/to/docker.sock, tcp://HOST:PORT or ssh://USER@HOST", e.why, e.host)
	case scheme == "unix" && filepath.IsAbs(addr):
		return e, nil
	case scheme == "unix":
		return e, fmt.Errorf("%s is %q, whose path is not absolute; write unix:///path/to/docker.sock", e.why, e.host)
	case e.overTCP():
		if _, _, err := net.SplitHostPort(strings.TrimSuffix(addr, "/")); err != nil {
			return e, fmt.Errorf("%s is %q: %v; write tcp://HOST:PORT", e.why, e.host, err)
		}
		return e, nil
	case scheme == "ssh":
		target, err := parseSSH(e.host)
		if err != nil {
			return e, fmt.Errorf("%s is %q: %w", e.why, redacted(e.host), err)
		}
		e.ssh = target
		return e, nil
	}
	return e, fmt.Errorf("%s is %q: the scheme %s is %w; use unix, tcp or ssh", e.why, e.host, scheme, sandbox.ErrUnsupported)
}

// redacted is an address without a password, which may be in one by mistake.
func redacted(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Redacted()
	}
	scheme, _, _ := strings.Cut(address, "://")
	return scheme + "://…"
}

// dockerConfigDir is where the docker command keeps config.json and contexts.
func dockerConfigDir() string {
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".docker")
}

// currentContext returns the chosen docker context, "" for none.
func currentContext() (string, error) {
	path := filepath.Join(dockerConfigDir(), "config.json")
	body, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the docker configuration: %w; mend that, or set DOCKER_HOST", err)
	}
	var config struct{ CurrentContext string }
	if err := json.Unmarshal(body, &config); err != nil {
		return "", fmt.Errorf("read the docker configuration %s: %w; mend that file, or set DOCKER_HOST", path, err)
	}
	return config.CurrentContext, nil
}

// contextEndpoint reads a context's engine from where the docker command
// stores it: a directory named by the hash of the context's name.
func contextEndpoint(name, why string) (endpoint, error) {
	if name == "default" {
		return endpoint{host: "unix://" + defaultSocket, why: why + " (default)"}, nil
	}
	why = fmt.Sprintf("%s (%s)", why, name)
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	path := filepath.Join(dockerConfigDir(), "contexts", "meta", id, "meta.json")
	body, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return endpoint{why: why}, fmt.Errorf("%s does not exist; see docker context ls, and choose another with docker context use, or unset it", why)
	}
	if err != nil {
		return endpoint{why: why}, fmt.Errorf("read %s: %w; choose another with docker context use", why, err)
	}
	var meta struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	if err := json.Unmarshal(body, &meta); err != nil {
		return endpoint{why: why}, fmt.Errorf("read %s from %s: %w; make it again with docker context create", why, path, err)
	}
	engine, has := meta.Endpoints["docker"]
	if !has || engine.Host == "" {
		return endpoint{why: why}, fmt.Errorf("%s names no engine; make it again with docker context create, or choose another with docker context use", why)
	}
	e, err := checkEndpoint(endpoint{host: engine.Host, why: why})
	if err != nil || !e.overTCP() {
		return e, err
	}
	// What docker context create was given to be known by, and to know it by.
	if dir := filepath.Join(dockerConfigDir(), "contexts", "tls", id, "docker"); exists(dir) || engine.SkipTLSVerify {
		if e.tls, err = tlsFrom(dir, engine.SkipTLSVerify); err != nil {
			return e, fmt.Errorf("use the TLS files of %s: %w; make it again with docker context create", why, err)
		}
	}
	return e, nil
}

// baseURL is the endpoint as the base URL of a Ref: docker:///var/run/docker.sock,
// docker://far:2376, docker://far/ssh?user=me. A Ref names no user before an '@'.
func (e endpoint) baseURL() string {
	_, addr, _ := strings.Cut(e.host, "://")
	if filepath.IsAbs(addr) {
		return (&url.URL{Scheme: "docker", Path: addr}).String()
	}
	if e.ssh.host != "" {
		return e.ssh.baseURL()
	}
	return "docker://" + addr
}

// socket returns the path of the endpoint's unix socket, "" when it has none.
func (e endpoint) socket() string {
	if addr, ok := strings.CutPrefix(e.host, "unix://"); ok {
		return addr
	}
	return ""
}

// loopback reports whether a tcp endpoint is on this machine by its address: it
// may be the end of a tunnel all the same.
func (e endpoint) loopback() bool {
	_, addr, _ := strings.Cut(e.host, "://")
	host, _, _ := net.SplitHostPort(strings.TrimSuffix(addr, "/"))
	return e.overTCP() && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

// dial opens a connection to the engine.
func (e endpoint) dial(ctx context.Context) (net.Conn, error) {
	if e.fault != nil {
		return nil, e.fault
	}
	if e.ssh.host != "" {
		return e.ssh.dial(ctx)
	}
	var d net.Dialer
	if socket := e.socket(); socket != "" {
		return d.DialContext(ctx, "unix", socket)
	}
	_, addr, _ := strings.Cut(e.host, "://")
	addr = strings.TrimSuffix(addr, "/")
	if e.tls == nil {
		return d.DialContext(ctx, "tcp", addr)
	}
	return (&tls.Dialer{NetDialer: &d, Config: e.tls}).DialContext(ctx, "tcp", addr)
}

// client returns a client of the engine's API, all of whose connections come from
// dial: no proxy of the environment comes between.
func (e endpoint) client() (*client.Client, error) {
	host := e.host
	switch {
	case e.ssh.host != "" || e.fault != nil:
		host = "http://docker"
	case e.overTCP():
		_, addr, _ := strings.Cut(e.host, "://")
		host = "http://" + addr // TLS, where there is some, is dial's
	}
	transport := &http.Transport{}
	c, err := client.NewClientWithOpts(
		client.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}),
		client.WithHost(host),
		client.WithVersionFromEnv(),
		client.WithAPIVersionNegotiation(),
	)
	if err != nil {
		return nil, err
	}
	transport.Proxy = nil
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return e.dial(ctx) }
	transport.IdleConnTimeout = time.Minute
	return c, nil
}
