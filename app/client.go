package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
)

// apiClient talks to a server as every screen does.
type apiClient struct {
	base  string
	token string
	own   bool // the server lives in this process, for this verb
	http  *http.Client
}

// apiError is what the server answered with.
type apiError struct {
	httpapi.ErrorBody
	status int
}

// nextVerb says by an error's code which verb helps.
var nextVerb = map[string]string{
	"unknown_session": "; glovebox ls lists the sessions",
	"session_ended":   "; glovebox ls lists the sessions, glovebox run opens one",
	"no_sandbox":      "; glovebox show says why, glovebox reprovision gives it one",
	"session_busy":    ": glovebox interrupt",
	"sandbox_lost":    "; the verb is glovebox reprovision",
}

func (e *apiError) Error() string {
	text := e.Message + nextVerb[e.Code]
	if e.Field != "" && !strings.HasPrefix(text, e.Field) {
		return e.Field + ": " + text
	}
	return text
}

func newClient(url, dataDir string) (*apiClient, error) {
	token, err := os.ReadFile(filepath.Join(dataDir, tokenFile))
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	// Loopback is never reached through a proxy.
	return &apiClient{base: url, token: strings.TrimSpace(string(token)), http: &http.Client{Transport: &http.Transport{}}}, nil
}

// call makes one request. in and out may be nil.
func (c *apiClient) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+"/api/v1"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("the server at %s does not answer: %w", c.base, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		var e httpapi.ErrorResponse
		if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
			return fmt.Errorf("the server answered %s", resp.Status)
		}
		return &apiError{e.Error, resp.StatusCode}
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

func (c *apiClient) dial(ctx context.Context, path string) (*websocket.Conn, error) {
	conn, _, err := websocket.Dial(ctx, c.base+"/api/v1"+path, &websocket.DialOptions{
		HTTPClient:   c.http,
		Subprotocols: []string{"glovebox.v1"},
		HTTPHeader:   http.Header{"Authorization": {"Bearer " + c.token}},
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("connect to %s: %w", c.base, err)
	}
	conn.SetReadLimit(64 << 20)
	return conn, nil
}

// How a connection ends: without a last word, or with that of a server which is
// told to end.
var (
	errServerGone  = errors.New("the server went away")
	errServerStops = errors.New("the server is stopping")
)

// endOf returns how the server ended a connection that cannot be read any more.
func endOf(err error) error {
	if websocket.CloseStatus(err) == websocket.StatusGoingAway {
		return errServerStops
	}
	return errServerGone
}

// errDone ends follow without an error.
var errDone = errors.New("done")

// follow hands every frame of a session to handle, from the seq after on, until
// handle returns an error, which it returns, or nil for errDone.
func (c *apiClient) follow(ctx context.Context, id string, after int64, handle func(httpapi.Frame) error) error {
	conn, err := c.dial(ctx, "/events")
	if err != nil {
		return err
	}
	defer conn.CloseNow()
	want, err := json.Marshal(httpapi.Frame{Type: "subscribe", SessionID: id, After: after})
	if err != nil {
		return err
	}
	if err := conn.Write(ctx, websocket.MessageText, want); err != nil {
		return err
	}
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return endOf(err)
		}
		frames, err := framesOf(data)
		if err != nil {
			return fmt.Errorf("a message of the server: %w", err)
		}
		for _, f := range frames {
			if f.Type == "error" && f.Error != nil {
				return &apiError{ErrorBody: *f.Error}
			}
			switch err := handle(f); {
			case errors.Is(err, errDone):
				return nil
			case err != nil:
				return err
			}
		}
	}
}

// framesOf returns the frames of a message, which is one or a list of them.
func framesOf(message []byte) ([]httpapi.Frame, error) {
	if bytes.HasPrefix(message, []byte("[")) {
		var frames []httpapi.Frame
		err := json.Unmarshal(message, &frames)
		return frames, err
	}
	frames := make([]httpapi.Frame, 1)
	err := json.Unmarshal(message, &frames[0])
	return frames, err
}
