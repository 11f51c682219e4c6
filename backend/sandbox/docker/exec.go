package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
)

// program is a command that the engine runs in a container.
type program struct {
	user string // "" for the container's own, else "UID:GID"
	argv []string
	// detached programs run on by themselves, with nobody at their stdio.
	detached bool
}

// startExec starts a program in a container and returns its stdio, or nil for a
// detached one. The deadline is of the start alone.
func (p *Provider) startExec(ctx context.Context, id string, prog program) (execID string, stdio *execStdio, err error) {
	created, err := call(ctx, p, "prepare "+prog.argv[0]+" in "+id[:12], readTimeout, func(ctx context.Context) (container.ExecCreateResponse, error) {
		return p.engine.ContainerExecCreate(ctx, id, container.ExecOptions{
			User: prog.user, Cmd: prog.argv, WorkingDir: "/",
			AttachStdin: !prog.detached, AttachStdout: !prog.detached, AttachStderr: !prog.detached,
		})
	})
	if err != nil {
		return "", nil, err
	}
	what := "run " + prog.argv[0] + " in " + id[:12]
	if prog.detached {
		_, err = call(ctx, p, what, startTimeout, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, p.engine.ContainerExecStart(ctx, created.ID, container.ExecStartOptions{Detach: true})
		})
		return created.ID, nil, err
	}
	stdio, err = call(ctx, p, what, readTimeout, func(ctx context.Context) (*execStdio, error) {
		return p.hijack(ctx, "/exec/"+created.ID+"/start", `{"Detach":false,"Tty":false}`)
	})
	return created.ID, stdio, err
}

// hijack asks the engine for a connection of its own. The client has a call for
// it, which knows no deadline once it is connected: a hanging engine would hang
// whoever dials a guest.
func (p *Provider) hijack(ctx context.Context, path, body string) (_ *execStdio, err error) {
	conn, err := p.endpoint.dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() && err == nil {
			err = context.Cause(ctx) // the deadline may be set at any moment
		}
		if err != nil {
			conn.Close()
			if ctx.Err() != nil {
				err = ctx.Err()
			}
		}
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://docker/v"+p.engine.ClientVersion()+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "tcp")
	if err := r.Write(conn); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(conn, 64<<10)
	answer, err := http.ReadResponse(in, r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols && answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
		return nil, fmt.Errorf("the engine answered %s: %s", answer.Status, bytes.TrimSpace(text))
	}
	return &execStdio{conn: conn, in: in}, nil
}

// execStdio is the stdio of an attached program. Reads are of its standard
// output; the last of what it writes to the other is kept for messages. The
// engine sends both on one connection, each piece behind eight bytes: one of them
// the stream, four the length.
type execStdio struct {
	conn net.Conn
	in   *bufio.Reader
	left uint32 // of the piece that is being read
	said lastWords
	once sync.Once
}

const (
	engineStdout = 1
	engineStderr = 2
)

func (s *execStdio) Read(b []byte) (int, error) {
	for s.left == 0 {
		var head [8]byte
		if _, err := io.ReadFull(s.in, head[:]); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = io.EOF
			}
			return 0, err
		}
		size := binary.BigEndian.Uint32(head[4:])
		switch head[0] {
		case engineStdout:
			s.left = size
		case engineStderr:
			if _, err := io.CopyN(&s.said, s.in, int64(size)); err != nil {
				return 0, err
			}
		default:
			return 0, fmt.Errorf("the engine sent stream %d, which is none", head[0])
		}
	}
	if uint32(len(b)) > s.left {
		b = b[:s.left]
	}
	n, err := s.in.Read(b)
	s.left -= uint32(n)
	return n, err
}

func (s *execStdio) Write(b []byte) (int, error) { return s.conn.Write(b) }

// CloseWrite ends the program's input.
func (s *execStdio) CloseWrite() error {
	if c, ok := s.conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

func (s *execStdio) Close() (err error) {
	s.once.Do(func() { err = s.conn.Close() })
	return err
}

// runExec runs a program to its end, with input, and returns what it printed and
// its exit code. said is the last line of its standard error.
func (p *Provider) runExec(ctx context.Context, id string, prog program, input io.Reader, limit time.Duration) (out []byte, said string, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	execID, stdio, err := p.startExec(ctx, id, prog)
	if err != nil {
		return nil, "", 0, err
	}
	defer stdio.Close()
	defer context.AfterFunc(ctx, func() { stdio.Close() })()
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		if input != nil {
			io.Copy(stdio, input)
		}
		stdio.CloseWrite()
	}()
	out, err = io.ReadAll(io.LimitReader(stdio, 1<<20))
	stdio.Close()
	<-fed
	if ctx.Err() != nil {
		return nil, "", 0, fmt.Errorf("run %s in %s: %w", prog.argv[0], id[:12], context.Cause(ctx))
	}
	if err != nil {
		return nil, "", 0, p.engineError(ctx, "run "+prog.argv[0]+" in "+id[:12], err)
	}
	code, err = p.exitCode(ctx, execID)
	return out, stdio.said.String(), code, err
}

// exitCode waits for the end of a program whose output has ended.
func (p *Provider) exitCode(ctx context.Context, execID string) (int, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		seen, err := call(ctx, p, "read the exit code", readTimeout, func(ctx context.Context) (container.ExecInspect, error) {
			return p.engine.ContainerExecInspect(ctx, execID)
		})
		if err != nil || !seen.Running {
			return seen.ExitCode, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
