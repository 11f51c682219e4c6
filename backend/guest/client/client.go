// Package client is how a host talks to a guest.
//
//	c := client.New(client.Options{Dial: h.Dial, GuestID: h.GuestID, Key: client.DeriveKey(secret, h.GuestID)})
//	defer c.Close()
//	outcome, err := c.Run(ctx, caller, cmd, live)
//
// A guest runs beside code that nobody vouches for, so the client believes none
// of its answers blindly: every line, frame and body is bounded, and every
// request but a command's has a deadline. Errors match the ones of package
// execenv; no connection, or one that was cut, is execenv.ErrUnreachable.
package client

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

const (
	maxAnswer   = 128 << 20        // bytes of one JSON answer: a read of 64 MiB is 86 in base64
	shortTime   = 10 * time.Second // for what a guest answers from memory
	filesTime   = 2 * time.Minute  // for one operation on files or a search
	settingTime = 30 * time.Second // until a command's answer begins
)

// Options are what a client needs to know.
type Options struct {
	Dial    sandbox.DialFunc
	GuestID string             // who must answer
	Key     ed25519.PrivateKey // proves who asks, where the kernel does not
	Log     *slog.Logger
}

// Client talks to one guest. Its methods may be called from several goroutines
// at once.
type Client struct {
	o         Options
	log       *slog.Logger
	transport *http.Transport
	http      *http.Client
}

// DeriveKey returns the key of one guest, from a secret that never leaves the
// host. The guest is given its public half.
func DeriveKey(secret []byte, guestID string) ed25519.PrivateKey {
	seed, err := hkdf.Key(sha256.New, secret, nil, "glovebox guest\x00"+guestID, ed25519.SeedSize)
	if err != nil {
		panic("client: " + err.Error()) // only for a length that HKDF cannot give
	}
	return ed25519.NewKeyFromSeed(seed)
}

// New returns a client. It connects when it is first asked for something.
func New(o Options) *Client {
	c := &Client{o: o, log: o.Log}
	if c.log == nil {
		c.log = slog.Default()
	}
	c.transport = &http.Transport{
		Proxy:                  nil,
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
		DisableCompression:     true,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
		ReadBufferSize:         64 << 10,
		WriteBufferSize:        64 << 10,
	}
	c.http = &http.Client{
		Transport: c.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a guest sends nobody elsewhere
		},
	}
	return c
}

// Close closes the connections that are idle. Calls that run are not touched.
func (c *Client) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// Hello asks the guest what it is.
func (c *Client) Hello(ctx context.Context) (h wire.Hello, err error) {
	return h, c.ask(ctx, shortTime, http.MethodGet, wire.PathHello, execenv.Caller{}, nil, &h)
}

// Stats asks for the sandbox's present use.
func (c *Client) Stats(ctx context.Context) (s wire.Stats, err error) {
	return s, c.ask(ctx, shortTime, http.MethodGet, wire.PathStats, execenv.Caller{}, nil, &s)
}

// Calls lists the commands that the guest knows.
func (c *Client) Calls(ctx context.Context) (calls []wire.CallInfo, err error) {
	return calls, c.ask(ctx, shortTime, http.MethodGet, wire.PathCalls, execenv.Caller{}, nil, &calls)
}

// Shutdown tells the guest to kill every call and to end.
func (c *Client) Shutdown(ctx context.Context) error {
	return c.ask(ctx, shortTime, http.MethodPost, wire.PathShutdown, execenv.Caller{}, nil, nil)
}

// Kill ends all processes of a call.
func (c *Client) Kill(ctx context.Context, callID, cause string) (r execenv.KillReport, err error) {
	return r, c.ask(ctx, shortTime, http.MethodPost, callPath(wire.PathKill, callID), execenv.Caller{}, wire.KillRequest{Cause: cause}, &r)
}

// Ack tells the guest that a call's outcome is stored, so that it forgets it.
func (c *Client) Ack(ctx context.Context, callID string) error {
	return c.ask(ctx, shortTime, http.MethodPost, callPath(wire.PathAck, callID), execenv.Caller{}, nil, nil)
}

func callPath(pattern, id string) string {
	return strings.Replace(pattern, "{id}", url.PathEscape(id), 1)
}

// ask makes one request with a JSON body and a JSON answer.
func (c *Client) ask(ctx context.Context, limit time.Duration, method, path string, caller execenv.Caller, req, res any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var body io.Reader
	if req != nil {
		text, err := json.Marshal(req)
		if err != nil {
			return fmt.Errorf("encode a request to the guest: %w", err)
		}
		body = bytes.NewReader(text)
	}
	answer, err := c.send(ctx, method, path, caller, body)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if res == nil {
		return nil
	}
	if err := decode(answer.Body, res); err != nil {
		return c.unreachable(ctx, err)
	}
	return nil
}

// send makes a request and returns an answer with a status of 200.
func (c *Client) send(ctx context.Context, method, path string, caller execenv.Caller, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://guest"+path, body)
	if err != nil {
		return nil, fmt.Errorf("make a request to the guest: %w", err)
	}
	if caller.RootTaskID != "" {
		r.Header.Set(wire.HeaderRoot, caller.RootTaskID)
		r.Header.Set(wire.HeaderGeneration, strconv.FormatInt(caller.Generation, 10))
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, refusal(answer)
}

// refusal is the error that an answer without success carries.
func refusal(answer *http.Response) error {
	var e wire.Error
	if err := decode(io.LimitReader(answer.Body, 1<<20), &e); err != nil {
		if answer.StatusCode == http.StatusNotFound {
			return errOldGuest // one of this age has a reason for what it does not find
		}
		return fmt.Errorf("the guest answered %s without saying why: %w", answer.Status, execenv.ErrUnreachable)
	}
	if e.Code == wire.CodeUnknownCall {
		return errUnknownCall
	}
	return e.Err()
}

var errOldGuest = fmt.Errorf("this sandbox's guest is older than this program and cannot do that; restart the sandbox: %w", execenv.ErrUnsupported)

var errUnknownCall = fmt.Errorf("the guest does not know this call: %w", execenv.ErrOutcomeUnknown)

func decode(r io.Reader, v any) error {
	l := &io.LimitedReader{R: r, N: maxAnswer}
	if err := json.NewDecoder(l).Decode(v); err != nil {
		if l.N <= 0 {
			return fmt.Errorf("the guest's answer is over %d bytes: %w", maxAnswer, execenv.ErrTooLarge)
		}
		return fmt.Errorf("read the guest's answer: %w", err)
	}
	return nil
}

// unreachable says what a request met that got no answer. An end of the
// caller's context stays what it is.
func (c *Client) unreachable(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, execenv.ErrTooLarge), errors.Is(err, execenv.ErrUnreachable):
		return err
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("ask the guest: %w", context.Cause(ctx))
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the made-up address
	}
	return fmt.Errorf("ask the guest: %w: %w", execenv.ErrUnreachable, err)
}
