package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox/backend/config"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/execenv/container"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/bench"
)

type benchFlags struct {
	json, quick bool
	only        []string
	trees       int
}

func (c *cli) benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine's Glovebox against the floors of this machine",
		Long: "Bench measures in a data directory of its own, which it removes at the end, and\n" +
			"sets each number beside what the same work costs without Glovebox. Other load on\n" +
			"the machine slows both, so read the ratios. A run takes some minutes.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.bench(cmd.Context(), f) },
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "print each row as a line of JSON")
	cmd.Flags().BoolVar(&f.quick, "quick", false, "few repetitions and little data")
	cmd.Flags().StringArrayVar(&f.only, "only", nil, "one of "+strings.Join(bench.Names(), ", ")+"; may be repeated")
	cmd.Flags().IntVar(&f.trees, "trees", 100, "hostile trees to stop behind each wall")
	cmd.AddCommand(c.benchInsideCommand())
	return cmd
}

// benchInsideCommand is what the benchmark runs inside sandboxes.
func (c *cli) benchInsideCommand() *cobra.Command {
	return group(&cobra.Command{Use: "inside", Short: "What the benchmark runs inside a sandbox", Hidden: true},
		&cobra.Command{
			Use: "spawn N SHELL", Short: "Time the start of shells", Args: cobra.ExactArgs(2),
			RunE: func(cmd *cobra.Command, args []string) error {
				n, err := strconv.Atoi(args[0])
				if err != nil {
					return usageError{err}
				}
				return bench.Spawn(cmd.Context(), c.out, n, args[1])
			},
		},
		&cobra.Command{
			Use: "fetch N URL PROXY", Short: "Time requests", Args: cobra.ExactArgs(3),
			RunE: func(cmd *cobra.Command, args []string) error {
				n, err := strconv.Atoi(args[0])
				if err != nil {
					return usageError{err}
				}
				return bench.Fetch(cmd.Context(), c.out, n, args[1], args[2])
			},
		},
		&cobra.Command{
			Use: "stamp N MILLISECONDS", Short: "Print the time again and again", Args: cobra.ExactArgs(2),
			RunE: func(cmd *cobra.Command, args []string) error {
				n, err1 := strconv.Atoi(args[0])
				pause, err2 := strconv.Atoi(args[1])
				if err := errors.Join(err1, err2); err != nil {
					return usageError{err}
				}
				return bench.Stamp(cmd.Context(), c.out, n, time.Duration(pause)*time.Millisecond)
			},
		},
	)
}

// bench runs a server of its own in this process and measures it.
func (c *cli) bench(ctx context.Context, f benchFlags) (err error) {
	for _, name := range f.only {
		if !slices.Contains(bench.Names(), name) {
			return usageError{fmt.Errorf("--only %s: no such measurement; choose of %s", name, strings.Join(bench.Names(), ", "))}
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "glovebox-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { // the owner of a workspace has to reach it
		return err
	}
	data := filepath.Join(dir, "data")
	a, err := New(ctx, Options{DataDir: data, Addr: "127.0.0.1:0", Config: config.Config{Docker: cfg.Docker}, Log: c.logger()})
	if err != nil {
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // until the sessions are closed
	ended := make(chan error, 1)                                // its one sender never blocks
	go func() { ended <- a.Run(life) }()
	defer func() {
		end()
		err = errors.Join(err, <-ended)
	}()
	engine := ""
	if info, err := a.docker.Ping(ctx); err == nil {
		engine = info.Endpoint
	}
	client, err := connectBench(a.URL(), data)
	if err != nil {
		return err
	}
	sandboxed := container.New(container.Options{Channels: a.lifetime})
	var table bench.Table
	report := bench.Lines(c.out)
	if !f.json {
		report = func(r bench.Row) {
			table.Add(r)
			fmt.Fprintln(c.err, "measured", r.What)
		}
	}
	err = bench.Run(ctx, bench.Options{
		Program: program, Dir: dir, Quick: f.quick, Only: f.only, Trees: f.trees, Engine: engine,
		API: client, Connect: connectBench, Report: report,
		Env: func(ctx context.Context, id string) (execenv.Env, error) {
			return sandboxed.Bind(ctx, id, execenv.Caller{})
		},
	})
	if !f.json {
		err = errors.Join(err, table.Print(c.out))
	}
	return err
}

// benchClient is an apiClient in the words of package bench.
type benchClient struct{ *apiClient }

func connectBench(url, dataDir string) (bench.API, error) {
	client, err := newClient(url, dataDir)
	return benchClient{client}, err
}

// Call implements bench.API.
func (c benchClient) Call(ctx context.Context, method, path string, in, out any) error {
	return c.call(ctx, method, path, in, out)
}

// Follow implements bench.API.
func (c benchClient) Follow(ctx context.Context, sessionID string, handle func(httpapi.Frame) error) error {
	return c.follow(ctx, sessionID, 0, handle)
}

// Socket implements bench.API.
func (c benchClient) Socket(ctx context.Context, path string) (*websocket.Conn, error) {
	return c.dial(ctx, path)
}
