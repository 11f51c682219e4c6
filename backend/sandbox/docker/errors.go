package docker

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// The deadlines of calls to the engine. A healthy engine answers a read within
// milliseconds and starts a container within a second; the long ones leave room
// for a machine under load. A start that the engine hangs in ends within half a
// minute, with the look at the engine that decides about its clean-up.
const (
	pingTimeout   = 3 * time.Second
	readTimeout   = 10 * time.Second
	createTimeout = 20 * time.Second
	startTimeout  = 20 * time.Second
	removeTimeout = 20 * time.Second
	guestTimeout  = 15 * time.Second // from start to the guest's first answer
)

// call runs one request to the engine under a deadline of its own and makes a
// silent engine sandbox.ErrUnreachable.
func call[T any](ctx context.Context, p *Provider, what string, timeout time.Duration, do func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	v, err := do(limited)
	return v, p.engineError(ctx, what, err)
}

// engineError says what we were doing, and wraps sandbox.ErrUnreachable when
// the engine did not answer. The caller's own end of ctx stays what it is.
func (p *Provider) engineError(ctx context.Context, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case p.endpoint.fault != nil:
		return fmt.Errorf("%w: %w", p.endpoint.fault, errRefused)
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("%s: %w", what, ctx.Err())
	case ctx.Err() != nil: // the caller's deadline was the shorter one
		return fmt.Errorf("%s: the engine at %s (%s) did not answer in time: %w: %w", what, p.endpoint.host, p.endpoint.why, errHangs, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: the engine at %s (%s) did not answer in time: %w", what, p.endpoint.host, p.endpoint.why, errHangs)
	}
	if why := p.endpoint.refusal(err); why != "" {
		return fmt.Errorf("%s: the engine at %s (%s) %s: %w", what, p.endpoint.host, p.endpoint.why, why, errRefused)
	}
	if silent(err) {
		return fmt.Errorf("%s: no engine answers at %s (%s); %s: %w", what, p.endpoint.host, p.endpoint.why, p.endpoint.toStart(), sandbox.ErrUnreachable)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// errRefused is an engine that may be there and cannot be spoken to as we are.
var errRefused = fmt.Errorf("%w", sandbox.ErrUnreachable)

// errHangs is an engine that takes connections, or a network that swallows them,
// and says nothing.
var errHangs = fmt.Errorf("%w", sandbox.ErrUnreachable)

// Refused reports whether an error is of an engine that may be there, and that
// this program is not let in to or does not understand: the error says what to do.
func Refused(err error) bool { return errors.Is(err, errRefused) }

// Remedy says what brings the engine back that a call failed at with err. missing
// says that nothing names an engine and none was found: it has to be installed, or
// started.
func (p *Provider) Remedy(err error) (remedy string, missing bool) {
	e := p.endpoint
	switch {
	case Refused(err):
		return "do what the message says; the engine itself may well be there", false
	case !errors.Is(err, sandbox.ErrUnreachable):
		return "do what the message says; the engine is there", false
	case errors.Is(err, errHangs) && !e.remote():
		return "the engine is there and hangs: see its log (journalctl -u docker) and restart it (systemctl restart docker), or " + e.change(), false
	case e.named() || e.remote():
		return e.toStart(), false
	}
	return Install, true
}

// refusal says why an engine that may well be there cannot be spoken to, and what
// to do, or "" for an error that is not of this kind.
func (e endpoint) refusal(err error) string {
	var ssh *sshError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var alert tls.AlertError
	text := err.Error()
	switch {
	case errors.As(err, &ssh):
		return fmt.Sprintf("is not reached (%s); try it by hand: ssh %s docker version", ssh.said, ssh.host)
	case e.socket() != "" && errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("does not let this user in; join the group that owns the socket (sudo usermod -aG docker %s, then log in again), or use a rootless engine", cmp.Or(os.Getenv("USER"), "$USER"))
	case errors.As(err, &authority), errors.As(err, &name), errors.As(err, &invalid):
		return fmt.Sprintf("shows a certificate that is not trusted (%v); put the ca.pem that signed it into DOCKER_CERT_PATH, or make the context again with it", last(err))
	case errors.As(err, &alert), strings.Contains(text, "remote error: tls"):
		return fmt.Sprintf("refuses our certificate (%v); put cert.pem and key.pem that it trusts into DOCKER_CERT_PATH, or make the context again with them", last(err))
	case strings.Contains(text, "HTTP request to an HTTPS server"), strings.Contains(text, "malformed HTTP response"):
		return "wants TLS; set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH, or use a context that has TLS files"
	case strings.Contains(text, "first record does not look like a TLS handshake"), errors.Is(err, http.ErrSchemeMismatch):
		return "speaks no TLS; unset DOCKER_TLS_VERIFY and DOCKER_CERT_PATH, or use its TLS port (usually 2376)"
	}
	return ""
}

// last is the innermost error, which says the most in the fewest words.
func last(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// toStart says what brings an engine back that is not there.
func (e endpoint) toStart() string {
	if info, err := os.Stat(e.socket()); e.socket() != "" && err == nil && info.Mode().Type() != fs.ModeSocket {
		return "that is no socket; write unix:///path/to/docker.sock, or " + e.change()
	}
	start := "start it"
	switch {
	case e.remote():
		start = "check the address, and that the engine listens there"
	case strings.Contains(e.host, "podman"):
		start = "start it (systemctl enable --now podman.socket)"
	case e.host == "unix://"+defaultSocket:
		start = "start it (sudo systemctl start docker)"
	}
	return start + ", or " + e.change()
}

// named reports whether somebody has said which engine it is.
func (e endpoint) named() bool { return e.change() != setHost }

const setHost = "set DOCKER_HOST"

// change says how another engine is chosen: where this one was.
func (e endpoint) change() string {
	switch {
	case e.why == whySetting:
		return "change host in [docker] of the configuration"
	case e.why == whyHost:
		return "change or unset DOCKER_HOST"
	case strings.HasPrefix(e.why, whyContext):
		return "change or unset DOCKER_CONTEXT (docker context ls shows what there is)"
	case strings.HasPrefix(e.why, whyCurrent):
		return "choose another context (docker context use NAME)"
	}
	return setHost
}

// silent reports whether err means that no answer came, as opposed to a bad one.
func silent(err error) bool {
	var op *net.OpError
	var ssh *sshError
	return client.IsErrConnectionFailed(err) || errors.As(err, &op) || errors.As(err, &ssh) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// answered reports whether err is the engine's refusal, as opposed to its
// silence or the caller's end.
func answered(err error) bool {
	return !errors.Is(err, sandbox.ErrUnreachable) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

func isNotFound(err error) bool { return cerrdefs.IsNotFound(err) }
