package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// refusal says that the policy does not let a request through.
type refusal struct {
	Decision
}

func (e *refusal) Error() string {
	to := net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
	if e.Address == "" {
		return fmt.Sprintf("this sandbox may not reach %s: %s", to, e.Reason)
	}
	return fmt.Sprintf("this sandbox may not reach %s: %s is %s%s", to, e.Address, e.Reason, e.advice())
}

// reasonOwn refuses Glovebox's own listeners, which no policy opens.
const reasonOwn = "Glovebox itself"

// advice says what lets the request through, or nothing where nothing does: an
// entry is advised when it opens just this.
func (e *refusal) advice() string {
	addr, err := netip.ParseAddr(e.Address)
	switch {
	case err != nil || e.Reason == reasonOwn:
		return ""
	case addr.Is4In6():
		return "; write it as " + netip.AddrPortFrom(addr.Unmap(), e.Port).String()
	}
	name := e.Host
	if host, err := sandbox.HostName(name); err == nil {
		name = host
	}
	for _, host := range []string{e.Host, e.Address} {
		entry := net.JoinHostPort(host, strconv.Itoa(int(e.Port)))
		p, err := newPolicy(sandbox.Network{Allow: []string{entry}})
		if err != nil {
			continue
		}
		if ok, _ := p.judge(name, addr, e.Port, e.Reason); ok {
			return fmt.Sprintf(". To allow it, open the session with --allow %s, or name it in sandbox.allow of the configuration", entry)
		}
	}
	return ""
}

// Why a request that is allowed was not connected.
var (
	errResolve = errors.New("the name does not resolve")
	errHost    = errors.New("not a host")
)

// splitTarget reads HOST:PORT; without a port it is def, unless that is 0.
func splitTarget(target string, def uint16) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(target)
	if err != nil {
		if def == 0 || strings.HasSuffix(target, ":") {
			return "", 0, fmt.Errorf("%q is not HOST:PORT: %w", clip(target), errHost)
		}
		host, text = strings.TrimSuffix(strings.TrimPrefix(target, "["), "]"), strconv.Itoa(int(def))
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || host == "" {
		return "", 0, fmt.Errorf("%q is not HOST:PORT: %w", clip(target), errHost)
	}
	return host, uint16(n), nil
}

// clip shortens what a sandbox wrote to what a log should hold of it.
func clip(s string) string {
	if len(s) > 255 {
		s = s[:255]
	}
	return strings.ToValidUTF8(s, "�")
}

// connect decides about a request and, when it is allowed, dials the address that
// was judged. It tells of the decision. The error is a *refusal, or wraps what
// the dial met.
func (s *service) connect(ctx context.Context, protocol, host string, port uint16) (*upstream, error) {
	began := time.Now()
	d := Decision{At: began, Protocol: protocol, Host: clip(host), Port: port}
	name := host
	literal, err := netip.ParseAddr(host)
	if err != nil {
		if name, err = sandbox.HostName(host); err != nil {
			return nil, s.refuse(d, "it is not a host name")
		}
	}
	addrs := []netip.Addr{literal}
	if !literal.IsValid() {
		rctx, cancel := context.WithTimeout(ctx, resolveTime)
		addrs, err = s.p.o.Resolver.LookupNetIP(rctx, "ip", name)
		cancel()
		for i := range addrs {
			addrs[i] = addrs[i].Unmap() // a resolver's way to write IPv4
		}
		if err == nil && len(addrs) == 0 {
			err = errResolve
		}
		if err != nil {
			// Nothing to judge: no packet leaves but the resolver's own.
			d.Allowed, d.Reason = true, "the name did not resolve"
			s.p.o.Decided(s.root, d)
			return nil, s.failed(d, began, fmt.Errorf("%w: %w", errResolve, err))
		}
	}
	var open []netip.Addr
	for _, a := range addrs {
		ok, reason := s.judge(name, a, port)
		if ok && len(open) == 0 || !ok && d.Address == "" {
			d.Address, d.Reason = a.String(), reason
		}
		if ok {
			open = append(open, a)
		}
	}
	if len(open) == 0 {
		return nil, s.refuse(d, d.Reason)
	}
	d.Allowed = true
	s.p.o.Decided(s.root, d)

	conn, addr, err := s.dial(ctx, open, port)
	if err != nil {
		return nil, s.failed(d, began, err)
	}
	d.Address = addr.String()
	return newUpstream(s, conn, d), nil
}

// dial connects to the first of several addresses that answers. The next one is
// tried when one has failed, or beside it when it takes its time: a family of
// addresses that leads nowhere from here costs a moment and no more.
func (s *service) dial(ctx context.Context, addrs []netip.Addr, port uint16) (net.Conn, netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	type result struct {
		conn net.Conn
		addr netip.Addr
		err  error
	}
	results := make(chan result, len(addrs)) // room for all: nobody has to wait for us
	var faults error
	var won result
	next, running := 0, 0
	head := time.NewTimer(0)
	defer head.Stop()
	for next < len(addrs) || running > 0 {
		select {
		case <-head.C:
			if next == len(addrs) || won.conn != nil || ctx.Err() != nil {
				continue
			}
			addr := addrs[next]
			next, running = next+1, running+1
			go func() {
				conn, err := s.p.o.Dial(ctx, "tcp", netip.AddrPortFrom(addr, port).String())
				results <- result{conn, addr, err}
			}()
			head.Reset(headStart)
		case r := <-results:
			running--
			switch {
			case r.err != nil:
				faults = errors.Join(faults, r.err)
				head.Reset(0)
			case won.conn != nil:
				r.conn.Close()
			default:
				won, next = r, len(addrs)
				cancel() // the others
			}
		}
		if ctx.Err() != nil {
			next = len(addrs)
		}
	}
	if won.conn != nil {
		return won.conn, won.addr, nil
	}
	return nil, netip.Addr{}, errors.Join(faults, ctx.Err())
}

// judge is the policy with what this machine is.
func (s *service) judge(name string, addr netip.Addr, port uint16) (ok bool, reason string) {
	kind := kindOf(addr)
	ours := kind == kindLoopback
	if !ours && kind != kindUnspecified && s.p.machine.has(addr) {
		ours, kind = true, kindMachine
	}
	if ours && s.p.o.Own != nil {
		for _, own := range s.p.o.Own() {
			if own.Port() == port {
				return false, reasonOwn
			}
		}
	}
	return s.policy.judge(name, addr, port, kind)
}

// refuse tells of a refusal and returns it.
func (s *service) refuse(d Decision, reason string) error {
	d.Allowed, d.Reason = false, reason
	s.p.o.Decided(s.root, d)
	return &refusal{d}
}

// failed tells of an allowed request that was not connected, and returns why.
func (s *service) failed(d Decision, began time.Time, err error) error {
	d.Error, d.Duration = brief(err), time.Since(began)
	s.p.o.Ended(s.root, d)
	return err
}

// brief says in a few words what a dial met.
func brief(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host"
	case errors.Is(err, errResolve):
		return errResolve.Error()
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return "no answer in time"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "no route to it from this machine"
	case errors.Is(err, context.Canceled):
		return "given up by the client"
	}
	return clip(err.Error())
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}
