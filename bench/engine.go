package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
)

// engine is a container engine, spoken to with nothing in between: the floors
// have to be free of what they are the floor of.
type engine struct {
	host   string       // as docker -H takes it
	client *http.Client // nil where the engine is not at a unix socket
}

func newEngine(host string) (*engine, error) {
	e := &engine{host: host}
	if host == "" {
		return e, nil
	}
	u, err := url.Parse(host)
	if err != nil {
		return nil, fmt.Errorf("the engine's address: %w", err)
	}
	if u.Scheme == "unix" {
		e.client = &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", u.Path)
			},
		}}
	}
	return e, nil
}

var errNotFound = errors.New("not found")

func (e *engine) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://engine"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the engine: %w", err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return errNotFound
	case resp.StatusCode >= 400:
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("the engine answered %s: %s", resp.Status, bytes.TrimSpace(text))
	case out == nil:
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// exec runs a command in a container by the engine's API: create, attach until
// the output ends, read the code.
func (e *engine) exec(ctx context.Context, container string, argv ...string) error {
	var made struct{ ID string }
	err := e.call(ctx, "POST", "/containers/"+container+"/exec", map[string]any{"AttachStdout": true, "AttachStderr": true, "Cmd": argv}, &made)
	if err != nil {
		return err
	}
	if err := e.call(ctx, "POST", "/exec/"+made.ID+"/start", map[string]bool{"Detach": false, "Tty": false}, nil); err != nil {
		return err
	}
	var end struct{ ExitCode int }
	if err := e.call(ctx, "GET", "/exec/"+made.ID+"/json", nil, &end); err != nil {
		return err
	}
	if end.ExitCode != 0 {
		return fmt.Errorf("%s ended with code %d", argv[0], end.ExitCode)
	}
	return nil
}

// command is the docker program with arguments.
func (e *engine) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "docker", append([]string{"-H", e.host}, args...)...)
}

// hasCommand reports whether the docker program is there.
func (e *engine) hasCommand() bool {
	_, err := exec.LookPath("docker")
	return err == nil
}

// hasImage reports whether an image is there. Without an engine that can be
// asked it says so, and nothing is removed later.
func (e *engine) hasImage(ctx context.Context, ref string) (bool, error) {
	if e.client == nil || ref == "" {
		return true, nil
	}
	err := e.call(ctx, "GET", "/images/"+ref+"/json", nil, nil)
	if errors.Is(err, errNotFound) {
		return false, nil
	}
	return true, err
}

// removeImage removes an image that nothing uses.
func (e *engine) removeImage(ctx context.Context, ref string) error {
	err := e.call(ctx, "DELETE", "/images/"+ref, nil, nil)
	if errors.Is(err, errNotFound) || err != nil && strings.Contains(err.Error(), "409") {
		return nil // never made, or somebody else uses it by now
	}
	return err
}
