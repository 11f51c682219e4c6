// Package config reads the configuration file. Only package app imports it:
// every other package takes its own options.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Config is the whole file. What is left out is the zero value, and takes the
// default that its comment names.
type Config struct {
	Addr      string  `toml:"addr"`    // 127.0.0.1:7333
	Model     string  `toml:"model"`   // demo
	OnQuit    string  `toml:"on_quit"` // keep, stop or release; keep
	Agent     Agent   `toml:"agent"`
	Browser   Browser `toml:"browser"`
	Docker    Docker  `toml:"docker"`
	Egress    Egress  `toml:"egress"`
	Sandbox   Sandbox `toml:"sandbox"`
	ExecEnv   ExecEnv `toml:"exec_env"`
	Anthropic Vendor  `toml:"anthropic"`
	OpenAI    Vendor  `toml:"openai"`
	Models    []Model `toml:"models"`
}

// Agent is what the agent of a session has where the session does not say.
type Agent struct {
	Plugins []string `toml:"plugins"` // what it is given beside its tools: ["browser"]; none
}

// Docker says how the engine is reached.
type Docker struct {
	Host string `toml:"host"` // unix:///…; DOCKER_HOST or the default socket

	// PathMap names directories of the engine's machine that are seen here by
	// another name: theirs = ours. None; what Glovebox's own container has mounted
	// is found out.
	PathMap map[string]string `toml:"path_map"`
}

// Egress says how what sandboxes send out leaves this machine.
type Egress struct {
	Upstream string `toml:"upstream"` // http://HOST:PORT of a proxy that public addresses are reached by; none
}

// Sandbox is the spec that a session takes where it names nothing itself.
type Sandbox struct {
	Wall      string            `toml:"wall"`    // docker where an engine answers, else namespace
	Image     string            `toml:"image"`   // the standard image where it was built, else the tiny one
	Wire      string            `toml:"wire"`    // aio for an image that serves the AIO Sandbox API; found out
	User      string            `toml:"user"`    // host
	Network   string            `toml:"network"` // proxy, none or open; proxy
	Allow     []string          `toml:"allow"`   // what the proxy lets through beside public addresses
	Resources map[string]string `toml:"resources"`

	// IdleStop is how long nothing runs in a sandbox before it is stopped: "90m".
	// 1h; "0" is never.
	IdleStop string `toml:"idle_stop"`

	// Preamble is the argument list of a program that is run before every command;
	// what it prints is put before the command. None.
	Preamble []string `toml:"preamble"`
	// Policy are globs of workspaces that get a sandbox; sessions of others run on
	// the host itself. Left out, all get one.
	Policy []string `toml:"policy"`
}

// ExecEnv names one sandbox that is there already and that every session shares
// where [sandbox] names neither a wall nor an image.
type ExecEnv struct {
	BaseURL   string `toml:"base_url"`
	APIKeyEnv string `toml:"api_key_env"` // SANDBOX_API_KEY
	Header    string `toml:"header"`      // X-AIO-API-Key
	Workdir   string `toml:"workdir"`     // what the other side says
}

// Load reads a file. One that is not there is the empty Config, unless it was
// asked for by name. An unknown key, or a value that no key can have, is a
// *sandbox.FieldError with the key.
func Load(path string, named bool) (Config, error) {
	var c Config
	meta, err := toml.DecodeFile(path, &c)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return Config{}, nil
	}
	var parse toml.ParseError
	if errors.As(err, &parse) && parse.LastKey != "" {
		return Config{}, fmt.Errorf("%s: line %d: %w", path, parse.Position.Line, &sandbox.FieldError{Field: parse.LastKey, Reason: parse.Message})
	}
	if errors.As(err, &parse) {
		return Config{}, fmt.Errorf("%s: %s", path, parse.ErrorWithPosition())
	}
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration: %w", err)
	}
	if left := meta.Undecoded(); len(left) > 0 {
		names := make([]string, len(left))
		for i, k := range left {
			names[i] = k.String()
		}
		return Config{}, fmt.Errorf("%s: %w", path, unknown(names))
	}
	if err := c.validate(); err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func (c Config) validate() error {
	switch c.OnQuit {
	case "", "keep", "stop", "release":
	default:
		return &sandbox.FieldError{Field: "on_quit", Reason: fmt.Sprintf("unknown word %q; choose keep, stop or release", c.OnQuit)}
	}
	if _, err := c.Sandbox.idleStop(); err != nil {
		return err
	}
	if err := c.Browser.validate(); err != nil {
		return err
	}
	if err := c.validateModels(); err != nil {
		return err
	}
	if err := c.validateHost(); err != nil {
		return err
	}
	err := c.Spec().Validate()
	var field *sandbox.FieldError
	if errors.As(err, &field) {
		return &sandbox.FieldError{Field: "sandbox." + strings.TrimSuffix(strings.Replace(field.Field, "network.allow", "allow", 1), ".mode"), Reason: field.Reason}
	}
	if _, err := sandbox.ParseResources(c.Sandbox.Resources); err != nil {
		if errors.As(err, &field) {
			return &sandbox.FieldError{Field: "sandbox." + field.Field, Reason: field.Reason}
		}
		return err
	}
	return nil
}

// defaultIdleStop is long enough for a person to come back to.
const defaultIdleStop = time.Hour

// IdleAfter returns how long nothing runs in a sandbox before it is stopped, 0 for
// never.
func (c Config) IdleAfter() time.Duration {
	d, err := c.Sandbox.idleStop()
	if err != nil { // Load has refused it
		return defaultIdleStop
	}
	return d
}

func (s Sandbox) idleStop() (time.Duration, error) {
	switch s.IdleStop {
	case "":
		return defaultIdleStop, nil
	case "0":
		return 0, nil
	}
	d, err := time.ParseDuration(s.IdleStop)
	if err != nil || d < time.Second {
		return 0, &sandbox.FieldError{Field: "sandbox.idle_stop", Reason: fmt.Sprintf("%q is not a time of at least 1s, as in 90m or 1h30m, nor 0 for never", s.IdleStop)}
	}
	return d, nil
}

// Spec returns the sandbox part as a spec.
func (c Config) Spec() sandbox.Spec {
	return sandbox.Spec{
		Wall: sandbox.Wall(c.Sandbox.Wall), Image: c.Sandbox.Image, Wire: c.Sandbox.Wire, User: c.Sandbox.User,
		Network: sandbox.Network{Mode: sandbox.NetworkMode(c.Sandbox.Network), Allow: c.Sandbox.Allow}, Resources: c.Sandbox.Resources,
	}
}

// DefaultPath returns where the file lies when no one names another:
// glovebox/config.toml in the user's configuration directory.
func DefaultPath() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "glovebox", "config.toml")
}
