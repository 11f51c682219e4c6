package aio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// A server is not trusted: every answer is bounded, and every request ends.
const (
	maxAnswer  = 96 << 20 // bytes of one JSON answer
	maxFault   = 64 << 10 // of an answer that is a fault
	dialTime   = 5 * time.Second
	probeTime  = 5 * time.Second
	shortTime  = 15 * time.Second // for what a server does at once
	scriptTime = 2 * time.Minute  // for one operation on files or a search
	bytesTime  = 5 * time.Minute  // for a download
)

// envelope is what nearly every answer of the API comes in.
type envelope struct {
	Success *bool           `json:"success"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// fileFault is what newer servers put into Data where a file operation failed.
type fileFault struct {
	Path      string `json:"path"`
	Message   string `json:"message"`
	ErrorType string `json:"error_type"`
}

// statusError is an answer with a status that is no success.
type statusError struct {
	Status  int
	Message string
	err     error
}

func (e *statusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the server answered %d", e.Status)
	}
	return fmt.Sprintf("the server answered %d: %s", e.Status, e.Message)
}

func (e *statusError) Unwrap() error { return e.err }

// errSent marks a request that may have reached the server before its answer was
// lost: whatever it does may have happened, and it is never sent again.
var errSent = errors.New("the request was sent and its answer was lost")

// newHTTP returns a client for one server. Go's own transport sends a POST again
// only where not a byte of it had been written.
func newHTTP(base *url.URL, dial sandbox.DialFunc) *http.Client {
	proxy := http.ProxyFromEnvironment
	if dial != nil || nearby(base.Hostname()) {
		proxy = nil // a proxy for the internet knows nothing of this machine
	}
	connect := (&net.Dialer{Timeout: dialTime}).DialContext
	if dial != nil {
		connect = func(ctx context.Context, network, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTime)
			defer cancel()
			conn, err := dial(ctx)
			if err != nil { // whatever it was, no request was sent
				return nil, &net.OpError{Op: "dial", Net: network, Err: err}
			}
			return conn, nil
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  proxy,
			DialContext:            connect,
			TLSHandshakeTimeout:    dialTime,
			DisableCompression:     true, // so that a small answer stays small
			MaxIdleConnsPerHost:    8,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the key is for this server alone
		},
	}
}

func nearby(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && (ip.IsLoopback() || ip.IsPrivate())
}

// post makes a request that has an effect, once.
func (s *Server) post(ctx context.Context, limit time.Duration, path string, req, data any) error {
	body, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("encode a request: %w", err)
	}
	return s.ask(ctx, limit, http.MethodPost, path, body, data)
}

// ask makes one request and takes the data out of the answer's envelope.
func (s *Server) ask(ctx context.Context, limit time.Duration, method, path string, body []byte, data any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := s.send(ctx, method, path, body, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return s.lost(ctx, method, err)
	case len(text) > maxAnswer:
		return fmt.Errorf("the server's answer to %s is over %d bytes: %w", path, maxAnswer, execenv.ErrTooLarge)
	}
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return misfit(path, err)
	}
	if e.Success != nil && !*e.Success {
		return inBand(e)
	}
	if data == nil {
		return nil
	}
	if whole, ok := data.(*json.RawMessage); ok { // for answers that carry more than an envelope
		*whole = text
		return nil
	}
	if err := json.Unmarshal(e.Data, data); err != nil {
		return misfit(path, err)
	}
	return nil
}

// errMisfit is an answer that is not what the API says.
var errMisfit = errors.New("the answer does not fit the API")

func misfit(path string, err error) error {
	return fmt.Errorf("%s: %w: %v", path, errMisfit, err)
}

// send makes a request and returns an answer with a status of success.
func (s *Server) send(ctx context.Context, method, path string, body []byte, header http.Header) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, s.base.String()+path, reader)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, */*")
	for name := range header {
		r.Header.Set(name, header.Get(name))
	}
	if err := s.authorize(ctx, r.Header); err != nil {
		return nil, err
	}
	answer, err := s.http.Do(r)
	if err != nil {
		return nil, s.lost(ctx, method, err)
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, s.refusal(answer)
}

// authorize puts the key into a request's header. It is read now and kept
// nowhere. Servers of all ages take a bearer token.
func (s *Server) authorize(ctx context.Context, h http.Header) error {
	if s.auth == nil {
		return nil
	}
	given, err := s.auth.Headers(ctx)
	if err != nil {
		return fmt.Errorf("read the server's key: %w", err)
	}
	for name, values := range given {
		h[http.CanonicalHeaderKey(name)] = values
		if strings.EqualFold(name, sandbox.DefaultKeyHeader) && len(values) > 0 && h.Get("Authorization") == "" {
			h.Set("Authorization", "Bearer "+values[0])
		}
	}
	return nil
}

// refusal is the error of an answer without success.
func (s *Server) refusal(answer *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxFault))
	e := &statusError{Status: answer.StatusCode, Message: faultText(text)}
	switch answer.StatusCode {
	case http.StatusUnauthorized:
		e.err = sandbox.ErrUnauthorized
		e.Message = sandbox.KeyAdvice(s.auth)
	case http.StatusForbidden:
		e.err = execenv.ErrPermission
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		e.err = execenv.ErrNotFound
	case http.StatusConflict:
		e.err = execenv.ErrChanged
	case http.StatusUnprocessableEntity, http.StatusBadRequest:
		e.err = execenv.ErrInvalid
	case http.StatusTooManyRequests:
		e.err = execenv.ErrBusy
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.err = execenv.ErrUnreachable // its gateway answers for a server that is not up
		e.Message = "its gateway answers, the server behind it does not"
	}
	return e
}

// faultText returns what a fault's body says, in the three shapes there are; of
// a page of a gateway it says nothing.
func faultText(body []byte) string {
	var f struct {
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &f) != nil {
		return ""
	}
	if f.Message != "" {
		return clip(f.Message)
	}
	var text string
	if json.Unmarshal(f.Detail, &text) == nil {
		return clip(text)
	}
	var fields []struct {
		Loc []any  `json:"loc"`
		Msg string `json:"msg"`
	}
	if json.Unmarshal(f.Detail, &fields) == nil && len(fields) > 0 {
		return clip(fmt.Sprintf("%v: %s", fields[0].Loc, fields[0].Msg))
	}
	return ""
}

// clip bounds text of a server that ends up in a message.
func clip(s string) string {
	const most = 300
	s = strings.ToValidUTF8(strings.TrimSpace(s), "\uFFFD")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// inBand is the error of an answer that came with status 200 and no success.
func inBand(e envelope) error {
	var f fileFault
	_ = json.Unmarshal(e.Data, &f) // a fault without data has its message
	kinds := map[string]error{
		"not_found": execenv.ErrNotFound, "permission_denied": execenv.ErrPermission, "already_exists": execenv.ErrExists,
		"invalid_path": execenv.ErrInvalid, "invalid_target": execenv.ErrNotRegular, "read_only_filesystem": execenv.ErrPermission,
		"decode_error": execenv.ErrBinary,
	}
	message := f.Message
	if message == "" {
		message = e.Message
	}
	if kind, ok := kinds[f.ErrorType]; ok {
		return &execenv.PathError{Path: f.Path, Err: kind, Detail: clip(message)}
	}
	return fmt.Errorf("%w: %s", errRefused, clip(message))
}

// errRefused is a request that the server took and could not do.
var errRefused = errors.New("the server refused")

// lost says what a request met that got no answer. An end of the caller's
// context stays what it is.
func (s *Server) lost(ctx context.Context, method string, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("ask %s: %w", s.name, context.Cause(ctx))
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the address, which a message has already
	}
	var dial *net.OpError
	if method == http.MethodGet || errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("ask %s: %w: %w", s.name, execenv.ErrUnreachable, err)
	}
	return fmt.Errorf("ask %s: %w: %w", s.name, errSent, err)
}

// unknown makes the error of an effect that may have happened say so. One that
// was not sent, or that the server has answered, is what it is.
func unknown(what string, err error) error {
	if errors.Is(err, errSent) || errors.Is(err, errMisfit) {
		return fmt.Errorf("%s: %w: %v", what, execenv.ErrOutcomeUnknown, err)
	}
	return err
}

// silent makes the error of a request without effects one of a server that does
// not answer.
func silent(err error) error {
	if errors.Is(err, errSent) {
		return fmt.Errorf("%w: %v", execenv.ErrUnreachable, err)
	}
	return err
}
