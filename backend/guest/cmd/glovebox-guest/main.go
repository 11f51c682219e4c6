//go:build linux

// Glovebox-guest is the daemon inside a sandbox: the first process of a
// container, or a process beside what runs there already. See package guest.
//
//	glovebox-guest serve --config JSON
//	glovebox-guest serve --listen HOST:PORT
//	glovebox-guest version
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/glovebox-dev/glovebox/backend/files"
	"github.com/glovebox-dev/glovebox/backend/guest"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// version is set by the build.
var version = "devel"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	verb := ""
	if len(args) > 0 {
		verb = args[0]
	}
	switch verb {
	case "version":
		fmt.Fprintf(stdout, "glovebox-guest %s, wire %d\n", version, wire.Version)
		return 0
	case "serve":
		if err := serve(args[1:], stdout, stderr); err != nil {
			fmt.Fprintln(stderr, "glovebox-guest:", err)
			return 1
		}
		return 0
	}
	fmt.Fprintln(stderr, "usage: glovebox-guest serve --config JSON | serve --listen HOST:PORT | version")
	return 2
}

func serve(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.SetOutput(stderr)
	text := flags.String("config", "", "the guest's config as JSON")
	own := standaloneFlags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	var cfg wire.GuestConfig
	ctx := context.Background()
	if own.listen != "" {
		// Nobody else ends it; what runs inside has no right to.
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		var err error
		if cfg, err = own.config(stdout); err != nil {
			return err
		}
	} else if err := json.Unmarshal([]byte(*text), &cfg); err != nil {
		return fmt.Errorf("read --config: %w", err)
	}
	if err := guest.Hide(cfg); err != nil {
		return err
	}
	// A sandbox's memory is for its commands: collect early, and hard near the
	// limit, which only many large outputs at once come close to.
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(64 << 20)

	g, err := guest.New(cfg, guest.Options{
		Files: func(refuse func(path string, write bool) error) guest.FileService {
			return files.New(files.Options{Refuse: refuse})
		},
		Build: version,
		Log:   slog.New(slog.NewTextHandler(stderr, nil)),
	})
	if err != nil {
		return err
	}
	return g.Serve(ctx)
}
