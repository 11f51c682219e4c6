//go:build linux

package container_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/execenv/container"
	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// cutter is a Channels whose channel can lose an answer: the request arrives,
// has its effect, and the connection breaks before the host has read of it.
type cutter struct {
	container.Channels
	client *client.Client
	lose   atomic.Int32 // so many answers
	asked  atomic.Int32 // why
}

func (p *place) cutter(t *testing.T) *cutter {
	t.Helper()
	h, err := p.stranger.Attach(t.Context(), p.binding.Ref)
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Channels: p.manager}
	c.client = client.New(client.Options{GuestID: h.GuestID, Key: client.DeriveKey(secret, h.GuestID), Dial: func(ctx context.Context) (net.Conn, error) {
		conn, err := h.Dial(ctx)
		return &cutConn{Conn: conn, c: c}, err
	}})
	t.Cleanup(func() { c.client.Close() })
	return c
}

func (c *cutter) Channel(ctx context.Context, rootTaskID string) (*client.Client, sandbox.Record, wire.Hello, error) {
	_, rec, hello, err := c.Channels.Channel(ctx, rootTaskID)
	return c.client, rec, hello, err
}

func (c *cutter) Why(ctx context.Context, rootTaskID string) error {
	c.asked.Add(1)
	return c.Channels.Why(ctx, rootTaskID)
}

type cutConn struct {
	net.Conn
	c       *cutter
	greeted bool
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.greeted {
		c.greeted = n > 0 && b[n-1] == '\n'
		return n, err
	}
	if err == nil && c.c.lose.Add(-1) >= 0 {
		c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func TestEnv_lostAnswer(t *testing.T) {
	everyWall(t, sandbox.Spec{}, func(t *testing.T, p *place) {
		ctx := t.Context()
		c := p.cutter(t)
		env, err := container.New(container.Options{Channels: c}).Bind(ctx, root, execenv.Caller{RootTaskID: root, Generation: 1})
		if err != nil {
			t.Fatal(err)
		}
		lose := func(n int32) { c.lose.Store(n) }
		write := execenv.WriteRequest{Call: execenv.Call{ID: "call-w"}, Path: "new", Data: []byte("x"), Mode: execenv.WriteExclusive}

		lose(1)
		if w, err := env.WriteFile(ctx, write); err != nil || !w.Created {
			t.Errorf("WriteFile() = %+v, %v, want what the lost answer said", w, err)
		}
		lose(1)
		edit := execenv.EditRequest{Call: execenv.Call{ID: "call-e"}, Path: "new", Old: "x", New: "xx", ReplaceAll: true}
		if e, err := env.EditFile(ctx, edit); err != nil || e.Replaced != 1 {
			t.Errorf("EditFile() = %+v, %v, want what the lost answer said", e, err)
		}
		if got, err := os.ReadFile(filepath.Join(p.workspace, "new")); err != nil || string(got) != "xx" {
			t.Errorf("the file is %q, %v, want that it was edited once", got, err)
		}
		lose(1)
		if r, err := env.ReadFile(ctx, execenv.ReadRequest{Path: "new"}); err != nil || string(r.Data) != "xx" {
			t.Errorf("ReadFile() = %q, %v", r.Data, err)
		}
		lose(1)
		nobody := execenv.ChangeRequest{Kind: execenv.ChangeRemove, Path: "new"}
		if err := env.Change(ctx, nobody); !errors.Is(err, execenv.ErrOutcomeUnknown) {
			t.Errorf("Change() without an id = %v, want outcome unknown", err)
		}
		if got := c.asked.Load(); got != 4 {
			t.Errorf("the Env asked %d times why, want once for each cut", got)
		}
		lose(2)
		if _, err := env.Stat(ctx, "."); !errors.Is(err, execenv.ErrUnreachable) {
			t.Errorf("Stat() = %v, want unreachable after two", err)
		}
	})
}

// A command whose stream is cut goes on and is told whole, and once.
func TestRun_cutStream(t *testing.T) {
	everyWall(t, sandbox.Spec{}, func(t *testing.T, p *place) {
		c := p.cutter(t)
		env, err := container.New(container.Options{Channels: c}).Bind(t.Context(), root, execenv.Caller{RootTaskID: root, Generation: 1})
		if err != nil {
			t.Fatal(err)
		}
		// More cuts in a row than the client takes on its own.
		c.lose.Store(8)
		var live []byte
		cmd := execenv.Command{Argv: []string{"sh", "-c", "echo ran >> ran; for i in 1 2 3; do echo $i; sleep 0.1; done"}}
		o, err := env.Run(t.Context(), cmd, func(c execenv.Chunk) { live = append(live, c.Data...) })
		if err != nil || string(o.Stdout.Head) != "1\n2\n3\n" || string(live) != "1\n2\n3\n" {
			t.Errorf("Run() = %q, live %q, %v", o.Stdout.Head, live, err)
		}
		if got, err := os.ReadFile(filepath.Join(p.workspace, "ran")); err != nil || string(got) != "ran\n" {
			t.Errorf("the command has written %q, %v, want that it ran once", got, err)
		}
		if c.asked.Load() == 0 {
			t.Error("the client rejoined by itself: the test tests nothing")
		}
	})
}
