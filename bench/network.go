package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// Fetch gets an address n times, by a connection of its own each, and prints
// what each took in nanoseconds. proxy is an address too; "" is none.
func Fetch(ctx context.Context, out io.Writer, n int, address, proxy string) error {
	t := &http.Transport{DisableKeepAlives: true, ReadBufferSize: 256 << 10}
	if proxy != "" {
		u, err := url.Parse(proxy)
		if err != nil {
			return err
		}
		t.Proxy = http.ProxyURL(u)
	}
	buf := make([]byte, 256<<10)
	for range n {
		began := time.Now()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		r, err := t.RoundTrip(req)
		if err != nil {
			return err
		}
		got, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{r.Body}, buf)
		r.Body.Close()
		if err == nil && (r.StatusCode != http.StatusOK || got != r.ContentLength) {
			err = fmt.Errorf("%s with %d of %d bytes", r.Status, got, r.ContentLength)
		}
		if err != nil {
			return fmt.Errorf("get %s: %w", address, err)
		}
		if _, err := fmt.Fprintln(out, time.Since(began).Nanoseconds()); err != nil {
			return err
		}
	}
	return nil
}

// network measures the way out of a sandbox against the same transfer outside.
func (b *bench) network(ctx context.Context) {
	size := int64(b.many(512<<20, 32<<20))
	times, requests := b.many(5, 1), b.many(200, 10)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.fault(ctx, "relay", err)
		return
	}
	zero := make([]byte, 256<<10)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
		if err != nil {
			http.Error(w, "how many?", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
		for n > 0 {
			m, err := w.Write(zero[:min(n, int64(len(zero)))])
			if err != nil {
				return
			}
			n -= int64(m)
		}
	}), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1) // the one result
	go func() { served <- server.Serve(l) }()
	defer func() {
		server.Close()
		<-served
	}()
	large, small := fmt.Sprintf("http://%s/?n=%d", l.Addr(), size), fmt.Sprintf("http://%s/?n=100", l.Addr())

	b.eachWall(ctx, "relay", func(wall sandbox.Wall) (err error) {
		spec := sandbox.Spec{Wall: wall, Network: sandbox.Network{Mode: sandbox.NetworkProxy, Allow: []string{l.Addr().String()}}}
		id, _, err := openSpec(ctx, b.o.API, spec)
		defer func() {
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
			defer cancel()
			err = errors.Join(err, closeSession(clean, b.o.API, id))
		}()
		s := &session{id: id}
		if err == nil {
			err = b.prepare(ctx, s)
		}
		if err != nil {
			return err
		}
		inside := func(n int, address, scheme string) ([]time.Duration, error) {
			return s.inside(ctx, "fetch", strconv.Itoa(n), address, scheme+"://"+wire.RelayAddr)
		}
		var byHTTP, bySOCKS, outside []time.Duration
		for range times { // in turns, so that other load meets all
			for _, part := range []struct {
				to  *[]time.Duration
				get func() ([]time.Duration, error)
			}{
				{&byHTTP, func() ([]time.Duration, error) { return inside(1, large, "http") }},
				{&bySOCKS, func() ([]time.Duration, error) { return inside(1, large, "socks5h") }},
				{&outside, func() ([]time.Duration, error) { return b.outside(ctx, 1, large) }},
			} {
				ds, err := part.get()
				if err != nil {
					return err
				}
				*part.to = append(*part.to, ds...)
			}
		}
		const floor = "the same program outside, straight to the server"
		row := Row{Unit: "MB/s", Floor: rates(outside, size), FloorIs: floor}
		row.What, row.Value = fmt.Sprintf("relay, a tunnel, %s", wall), rates(bySOCKS, size)
		b.report(row, noGoal)
		row.What, row.Value = fmt.Sprintf("relay, plain HTTP, %s", wall), rates(byHTTP, size)
		b.report(row, noGoal)

		one, err := inside(requests, small, "http")
		if err != nil {
			return err
		}
		least, err := b.outside(ctx, requests, small)
		if err != nil {
			return err
		}
		b.report(Row{What: fmt.Sprintf("relay, a small request, %s", wall), Unit: "ms", Value: millis(one), Floor: millis(least), FloorIs: floor}, noGoal)
		return nil
	})
}

// outside runs on this machine what Fetch is inside a sandbox.
func (b *bench) outside(ctx context.Context, n int, address string) ([]time.Duration, error) {
	cmd := exec.CommandContext(ctx, b.o.Program, "bench", "inside", "fetch", strconv.Itoa(n), address, "")
	var out, faults bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &faults
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("get %s outside: %w: %s", address, err, faults.String())
	}
	return nanoseconds(out.String())
}
