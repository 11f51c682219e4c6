//go:build linux

// Glovebox-guest is the daemon inside a sandbox: the first process of a
// container, or a process beside what runs there already. See package guest.
//
//	glovebox-guest serve --config JSON
//	glovebox-guest serve --listen HOST:PORT
//	glovebox-guest connect --socket PATH
//	glovebox-guest leave [--dir DIR] [--empty DIR] [--kill PROGRAM [--tags FIRST-LAST]]
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

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) int {
	verb := ""
	if len(args) > 0 {
		verb = args[0]
	}
	var do func() error
	switch verb {
	case "version":
		fmt.Fprintf(stdout, "glovebox-guest %s, wire %d\n", version, wire.Version)
		return 0
	case "serve":
		do = func() error { return serve(args[1:], stdout, stderr) }
	case "connect":
		do = func() error { return connect(args[1:], stdin, stdout, stderr) }
	case "leave":
		do = func() error { return leave(args[1:], stderr) }
	default:
		fmt.Fprintln(stderr, "usage: glovebox-guest serve --config JSON | serve --listen HOST:PORT | connect --socket PATH | leave | version")
		return 2
	}
	if err := do(); err != nil {
		fmt.Fprintln(stderr, "glovebox-guest:", err)
		return 1
	}
	return 0
}

// connect carries connections to a guest over stdio.
func connect(args []string, stdin io.ReadCloser, stdout io.WriteCloser, stderr io.Writer) error {
	flags := flag.NewFlagSet("connect", flag.ContinueOnError)
	flags.SetOutput(stderr)
	socket := flags.String("socket", "", "the guest's socket")
	if err := flags.Parse(args); err != nil {
		return err
	}
	debug.SetGCPercent(50)
	return guest.Connect(*socket, stdin, stdout)
}

// leave takes away what a guest has left.
func leave(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("leave", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var l guest.Leaving
	flags.StringVar(&l.Dir, "dir", "", "a directory to remove")
	flags.StringVar(&l.Empty, "empty", "", "a directory to empty")
	flags.StringVar(&l.Kill, "kill", "", "the program of a guest to end")
	tags := flags.String("tags", "", "the groups of its calls")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *tags != "" {
		if _, err := fmt.Sscanf(*tags, "%d-%d", &l.FirstTag, &l.LastTag); err != nil {
			return fmt.Errorf("--tags %q: want FIRST-LAST", *tags)
		}
	}
	return guest.Leave(l)
}

func serve(args []string, stdout, stderr io.Writer) error {
	// Signals never end a guest: they come from inside, or from an engine that has
	// also asked it to end. They are taken up to the end of the process, since what Go
	// does by itself for a first process is an exit with 2, as after a fault.
	signal.Notify(make(chan os.Signal, 1))
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
	if cfg.LogFile != "" {
		log, err := os.OpenFile(cfg.LogFile, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		defer log.Close()
		stderr = log
	}
	if err := guest.Hide(cfg); err != nil {
		return err
	}
	// A sandbox's memory is for its commands: collect early, and hard near the
	// limit, which only many large outputs at once come close to.
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(64 << 20)

	logger := slog.New(slog.NewTextHandler(stderr, nil))
	g, err := guest.New(cfg, guest.Options{
		Files: func(refuse func(path string, write bool) error) guest.FileService {
			return files.New(files.Options{Refuse: refuse})
		},
		Build: version,
		Log:   logger,
	})
	if err != nil {
		if cfg.LogFile != "" {
			logger.Error("guest", "err", err)
		}
		return err
	}
	return g.Serve(ctx)
}
