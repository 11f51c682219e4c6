// Command aioserver is a server of the AIO Sandbox API for tests that need one in
// a container, as the images that serve it have:
//
//	SANDBOX_API_KEY=K USER_UID=1000 USER_GID=1000 WORKSPACE=/workspace aioserver [--addr :8080] [--generation 2]
//
// Like theirs it starts as root, becomes the user that it is told, and wants the
// key with every request. It prints a line once it listens, and ends on SIGTERM.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/glovebox-dev/glovebox/backend/execenv/aio/aiotest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "aioserver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	addr := flag.String("addr", ":8080", "address to listen on")
	generation := flag.Int("generation", int(aiotest.Piped), "1 without /v1/bash, 2 with it, 3 for the daemon")
	flag.Parse()
	if err := become(os.Getenv("USER_UID"), os.Getenv("USER_GID")); err != nil {
		return err
	}
	server := aiotest.New(aiotest.Options{
		Generation: aiotest.Generation(*generation), Key: os.Getenv("SANDBOX_API_KEY"), Workspace: cmp.Or(os.Getenv("WORKSPACE"), "/workspace"),
	})
	defer server.Close()
	os.Unsetenv("SANDBOX_API_KEY") // its commands have it not
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Println("serving the AIO API on", l.Addr())
	h := &http.Server{Handler: server}
	defer context.AfterFunc(ctx, func() { h.Close() })()
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// become gives up root for another user, where one is named.
func become(uid, gid string) error {
	if uid == "" {
		return nil
	}
	u, err := strconv.Atoi(uid)
	if err != nil {
		return fmt.Errorf("USER_UID: %w", err)
	}
	g, err := strconv.Atoi(cmp.Or(gid, uid))
	if err != nil {
		return fmt.Errorf("USER_GID: %w", err)
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(g), syscall.Setuid(u)); err != nil {
		return fmt.Errorf("become the user %d:%d: %w", u, g, err)
	}
	return nil
}
