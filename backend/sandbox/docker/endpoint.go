package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// defaultSocket is where a rootful engine listens.
const defaultSocket = "/var/run/docker.sock"

// endpoint is the address of an engine, and why it is that one.
type endpoint struct {
	host string // unix:///var/run/docker.sock
	why  string // for people: "DOCKER_HOST"
}

// findEndpoint chooses the engine like the docker command does, after the
// product's own setting: setting, DOCKER_HOST, DOCKER_CONTEXT, the current
// context, the default socket, a rootless engine's socket.
func findEndpoint(setting string) (endpoint, error) {
	if setting != "" {
		return checkEndpoint(endpoint{setting, "the docker host setting"})
	}
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		return checkEndpoint(endpoint{host, "DOCKER_HOST"})
	}
	if name := os.Getenv("DOCKER_CONTEXT"); name != "" {
		return contextEndpoint(name, "DOCKER_CONTEXT")
	}
	name, err := currentContext()
	if err != nil {
		return endpoint{}, err
	}
	if name != "" {
		return contextEndpoint(name, "the current docker context")
	}
	if _, err := os.Stat(defaultSocket); err == nil {
		return endpoint{"unix://" + defaultSocket, "the default socket"}, nil
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		if path := filepath.Join(dir, "docker.sock"); exists(path) {
			return endpoint{"unix://" + path, "the rootless engine's socket"}, nil
		}
	}
	return endpoint{"unix://" + defaultSocket, "the default socket"}, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// checkEndpoint refuses addresses that the provider cannot serve: the guest's
// socket and the mounts need an engine on this machine.
func checkEndpoint(e endpoint) (endpoint, error) {
	scheme, addr, found := strings.Cut(e.host, "://")
	switch {
	case !found || addr == "":
		return e, fmt.Errorf("%s is %q, which has no scheme; write unix:///path/to/docker.sock", e.why, e.host)
	case scheme == "unix" && filepath.IsAbs(addr):
		return e, nil
	case scheme == "unix":
		return e, fmt.Errorf("%s is %q, whose path is not absolute; write unix:///path/to/docker.sock", e.why, e.host)
	case scheme == "tcp" || scheme == "http" || scheme == "https":
		host, _, err := net.SplitHostPort(addr)
		if ip := net.ParseIP(host); err == nil && (host == "localhost" || ip.IsLoopback()) {
			return e, nil
		}
		return e, fmt.Errorf("%s is %q: an engine on another machine is %w; use one on this machine", e.why, e.host, sandbox.ErrUnsupported)
	}
	return e, fmt.Errorf("%s is %q: the scheme %s is %w; use a unix socket of an engine on this machine", e.why, e.host, scheme, sandbox.ErrUnsupported)
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
		return "", fmt.Errorf("read the docker configuration: %w", err)
	}
	var config struct{ CurrentContext string }
	if err := json.Unmarshal(body, &config); err != nil {
		return "", fmt.Errorf("read the docker configuration %s: %w", path, err)
	}
	return config.CurrentContext, nil
}

// contextEndpoint reads a context's engine from where the docker command
// stores it: a directory named by the hash of the context's name.
func contextEndpoint(name, why string) (endpoint, error) {
	if name == "default" {
		return endpoint{"unix://" + defaultSocket, why + " (default)"}, nil
	}
	why = fmt.Sprintf("%s (%s)", why, name)
	sum := sha256.Sum256([]byte(name))
	path := filepath.Join(dockerConfigDir(), "contexts", "meta", hex.EncodeToString(sum[:]), "meta.json")
	body, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return endpoint{}, fmt.Errorf("%s does not exist; see docker context ls, or choose another with docker context use", why)
	}
	if err != nil {
		return endpoint{}, fmt.Errorf("read %s: %w", why, err)
	}
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	if err := json.Unmarshal(body, &meta); err != nil {
		return endpoint{}, fmt.Errorf("read %s from %s: %w", why, path, err)
	}
	return checkEndpoint(endpoint{meta.Endpoints["docker"].Host, why})
}

// baseURL is the endpoint as the base URL of a Ref: docker:///var/run/docker.sock.
func (e endpoint) baseURL() string {
	_, addr, _ := strings.Cut(e.host, "://")
	if filepath.IsAbs(addr) {
		return (&url.URL{Scheme: "docker", Path: addr}).String()
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
