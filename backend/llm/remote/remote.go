// Package remote is what models behind HTTP have in common: a key that is read
// where it is used, timeouts of a stream, faults in plain words, and a history
// that is fit for a wire. The vendors' packages build on it:
//
//	client := remote.New(remote.Options{BaseURL: "https://…", KeyEnv: "NAME_OF_KEY", KeyHeader: "X-Api-Key"})
//	exchange := client.Exchange(request.Model) // one per request; an SDK uses it in place of its HTTP client
//
// What an [Exchange] returns as an error, also from within a body, is an
// *llm.Error. It never holds the key, nor the body of an answer.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/llm"
)

// The default timeouts. Headers come late from a local server that still loads
// its model; within a stream every vendor sends something at least each minute.
const (
	headerTimeout = 5 * time.Minute
	idleTimeout   = 2 * time.Minute
)

// maxRefusal bounds what is read of an answer that is an error.
const maxRefusal = 64 << 10

// Options say which server is asked, and how.
type Options struct {
	BaseURL       string
	KeyEnv        string // variable that holds the key, read at every request; "" when none is needed
	KeyHeader     string // header that carries it
	KeyPrefix     string // before the key
	HTTP          *http.Client
	HeaderTimeout time.Duration // from the request to the headers of its answer; 0 is 5 minutes
	IdleTimeout   time.Duration // that a stream may stand still; 0 is 2 minutes
}

// Client makes requests to one server. It may be used from several goroutines.
type Client struct {
	o    Options
	http http.Client
	host string
}

// New returns a Client. Nothing is asked yet.
func New(o Options) *Client {
	if o.HeaderTimeout == 0 {
		o.HeaderTimeout = headerTimeout
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = idleTimeout
	}
	c := &Client{o: o, host: o.BaseURL}
	if o.HTTP != nil {
		c.http = *o.HTTP
	}
	// net/http keeps an unknown header such as X-Api-Key when it follows a
	// redirect to another host, which would hand the key to that host.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if u, err := url.Parse(o.BaseURL); err == nil && u.Host != "" {
		c.host = u.Host
	}
	return c
}

// Exchange returns what makes one request for a model.
func (c *Client) Exchange(model string) *Exchange {
	x := &Exchange{c: c, model: model}
	if c.o.KeyEnv != "" {
		x.key = strings.TrimSpace(os.Getenv(c.o.KeyEnv))
	}
	return x
}

// Exchange makes one request with the key as it is now.
type Exchange struct {
	c          *Client
	model, key string
}

// The causes with which a request is ended from here.
var (
	errNoHeaders = errors.New("no answer")
	errIdle      = errors.New("stands still")
)

// Do sends a request with the key and returns its answer if that is one. An
// answer with another status than 2xx is an *llm.Error. It implements the HTTP
// client of the vendors' SDKs.
func (x *Exchange) Do(r *http.Request) (*http.Response, error) {
	caller := r.Context()
	ctx, cancel := context.WithCancelCause(caller)
	timer := time.AfterFunc(x.c.o.HeaderTimeout, func() { cancel(errNoHeaders) })
	r = r.Clone(ctx) // the key is in no request that an SDK may keep or print
	if x.key != "" {
		r.Header.Set(x.c.o.KeyHeader, x.c.o.KeyPrefix+x.key)
	}
	res, err := x.c.http.Do(r)
	timer.Stop()
	if err != nil {
		fault := x.fault(ctx, caller, err)
		cancel(nil)
		return nil, fault
	}
	b := &body{
		x: x, rc: res.Body, ctx: ctx, caller: caller, cancel: cancel,
		timer: time.AfterFunc(x.c.o.IdleTimeout, func() { cancel(errIdle) }),
	}
	b.timer.Stop()
	res.Body = b
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	defer b.Close()
	data, err := io.ReadAll(io.LimitReader(b, maxRefusal))
	if err != nil && caller.Err() != nil {
		return nil, caller.Err()
	}
	return nil, x.refusal(res.StatusCode, res.Header, data)
}

// body ends a stream that stands still.
type body struct {
	x           *Exchange
	rc          io.ReadCloser
	ctx, caller context.Context
	cancel      context.CancelCauseFunc
	timer       *time.Timer // runs only during Read: a slow reader is nobody's fault
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.timer.Reset(b.x.c.o.IdleTimeout)
	n, err := b.rc.Read(p)
	b.timer.Stop()
	if err != nil && err != io.EOF {
		err = b.x.fault(b.ctx, b.caller, err)
	}
	return n, err
}

// Close ends the request, also one whose body has not been read to its end.
func (b *body) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.rc.Close()
}

// fault says in words why there was no answer, or no whole one.
func (x *Exchange) fault(ctx, caller context.Context, err error) error {
	if caller.Err() != nil {
		return caller.Err()
	}
	var dns *net.DNSError
	var message string
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errNoHeaders):
		message = fmt.Sprintf("%s did not answer within %v", x.c.host, x.c.o.HeaderTimeout)
	case errors.Is(cause, errIdle):
		message = fmt.Sprintf("the answer from %s stood still for %v", x.c.host, x.c.o.IdleTimeout)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return x.Cut()
	case errors.As(err, &dns):
		message = fmt.Sprintf("cannot find %s; check the network, and base_url in the configuration", x.c.host)
	default:
		message = fmt.Sprintf("cannot reach %s: %s; check the network, and base_url in the configuration", x.c.host, reason(err))
	}
	return &llm.Error{Kind: llm.Network, Message: message}
}

// reason is the innermost error: those around it repeat the address.
func reason(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// Cut is the fault of a stream that ended before the answer did.
func (x *Exchange) Cut() error {
	return &llm.Error{Kind: llm.Network, Message: fmt.Sprintf("the answer from %s was cut off", x.c.host)}
}

// Ended says why an SDK's stream ended before its message did: err is what the
// stream ended with, and named the error that the server sent within it, if any.
func (x *Exchange) Ended(ctx context.Context, err error, named []byte) error {
	var known *llm.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return x.Cut()
	case errors.As(err, &known):
		return known
	case named != nil:
		return x.inStream(named)
	}
	return x.Unreadable()
}

// Unreadable is the fault of a stream that does not speak its wire.
func (x *Exchange) Unreadable() error {
	return &llm.Error{Kind: llm.Malformed, Message: fmt.Sprintf("the answer from %s could not be read; if this happens again, check that base_url speaks this vendor's wire", x.c.host)}
}

// Truncated is the fault of an answer that reached its limit within a call.
func (x *Exchange) Truncated(tool string, limit int) error {
	return &llm.Error{Kind: llm.Malformed, Message: fmt.Sprintf("the answer of %s reached %s in the middle of a call of %s, which was not made; raise max_tokens of the model", x.model, limitWords(limit), tool)}
}

// CutNote is said at the end of an answer that reached its limit.
func CutNote(limit int) string {
	return "\n\n[The answer was cut off here: it reached " + limitWords(limit) + ".]"
}

func limitWords(limit int) string {
	if limit == 0 {
		return "its limit of tokens"
	}
	return fmt.Sprintf("its limit of %d tokens", limit)
}
