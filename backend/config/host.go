package config

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// validateHost checks what says where tools run beyond a spec.
func (c Config) validateHost() error {
	for theirs, ours := range c.Docker.PathMap {
		for _, name := range []string{theirs, ours} {
			if !filepath.IsAbs(name) || filepath.Clean(name) != name {
				return &sandbox.FieldError{Field: "docker.path_map", Reason: fmt.Sprintf("%q is not an absolute path without dots and doubled slashes; write \"/ON/THE/ENGINE\" = \"/HERE\"", name)}
			}
		}
	}
	if err := validateUpstream(c.Egress.Upstream); err != nil {
		return err
	}
	e := c.ExecEnv
	if e.BaseURL == "" && e != (ExecEnv{}) {
		return &sandbox.FieldError{Field: "exec_env.base_url", Reason: "is empty while others of exec_env are set; give the URL, as http://HOST:PORT"}
	}
	if e.BaseURL != "" {
		u, err := url.Parse(e.BaseURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return &sandbox.FieldError{Field: "exec_env.base_url", Reason: "is no URL such as http://HOST:PORT"}
		}
		if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return &sandbox.FieldError{Field: "exec_env.base_url", Reason: "holds more than an address; put a key into a variable and name that in exec_env.api_key_env"}
		}
	}
	if e.Workdir != "" && !path.IsAbs(e.Workdir) {
		return &sandbox.FieldError{Field: "exec_env.workdir", Reason: fmt.Sprintf("%q is not absolute", e.Workdir)}
	}
	if c.Sandbox.Wall == string(sandbox.WallRemote) && e.BaseURL == "" {
		return &sandbox.FieldError{Field: "sandbox.wall", Reason: "remote needs exec_env.base_url"}
	}
	if p := c.Sandbox.Preamble; len(p) > 0 && !filepath.IsAbs(p[0]) {
		return &sandbox.FieldError{Field: "sandbox.preamble", Reason: fmt.Sprintf("the program %q is not absolute", p[0])}
	}
	for _, glob := range c.Sandbox.Policy {
		if !filepath.IsAbs(glob) || !doublestar.ValidatePattern(glob) {
			return &sandbox.FieldError{Field: "sandbox.policy", Reason: fmt.Sprintf("%q is no absolute glob such as /home/me/work/**", glob)}
		}
	}
	return nil
}

// validateUpstream never repeats the address: it may hold a password.
func validateUpstream(upstream string) error {
	const field = "egress.upstream"
	if upstream == "" {
		return nil
	}
	u, err := url.Parse(upstream)
	switch {
	case err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Port() == "":
		return &sandbox.FieldError{Field: field, Reason: "is not http://HOST:PORT of a proxy that takes CONNECT"}
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return &sandbox.FieldError{Field: field, Reason: "holds more than an address; a proxy that wants a password is not supported"}
	}
	return nil
}

// Shared reports whether sessions that name nothing work in the sandbox of
// exec_env: a wall or an image that is named goes before it.
func (c Config) Shared() bool {
	return c.ExecEnv.BaseURL != "" && c.Sandbox.Image == "" &&
		(c.Sandbox.Wall == "" || c.Sandbox.Wall == string(sandbox.WallRemote))
}

// Sandboxed is the policy by workspace: whether a session in it gets a sandbox.
// A workspace that is yet to be made holds nothing of the host and gets one.
func (s Sandbox) Sandboxed(workspace string) bool {
	if len(s.Policy) == 0 || workspace == "" {
		return true
	}
	for _, glob := range s.Policy {
		if doublestar.MatchUnvalidated(glob, workspace) {
			return true
		}
	}
	return false
}
