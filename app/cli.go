package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/config"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/store"
)

// The exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNoWall      = 3
	exitInterrupted = 130
)

// cli is what every verb shares: the streams, and the flags of the root.
type cli struct {
	in       io.Reader
	out, err io.Writer

	dataDir string
	config  string
	verbose bool
}

// usageError is a mistake on the command line.
type usageError struct{ error }

// asUsage makes an error that names a field of what was typed a usageError.
func asUsage(err error) error {
	var api *apiError
	if errors.Is(err, sandbox.ErrSpec) || errors.As(err, &api) && api.Code == "invalid_field" {
		return usageError{err}
	}
	return err
}

// exitError carries an exit code that is not a failure of ours.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// Main runs the command line and returns its exit code. The first interrupt
// ends things in good order, the second at once.
func Main(args []string, in io.Reader, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the next signal has its default effect

	c := &cli{in: in, out: out, err: errs}
	root := c.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	code := exitCode(err)
	if err != nil && code != exitInterrupted && !errors.As(err, new(exitError)) {
		fmt.Fprintln(errs, "glovebox:", err)
	}
	return code
}

func exitCode(err error) int {
	var exit exitError
	var api *apiError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, new(usageError)):
		return exitUsage
	case isNoWall(err), errors.As(err, &api) && api.Code == "no_wall":
		return exitNoWall
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitFailed
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "glovebox",
		Short: "A sealed sandbox for AI agents, with a window and gloves",
		Long: "Glovebox runs an AI agent's commands and edits in a sealed sandbox per session,\n" +
			"and shows you live what happens there. Without a verb it " + openDoes + ".",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return c.open(cmd.Context()) },
	}
	root.PersistentFlags().StringVar(&c.dataDir, "data", "", "data directory (default "+defaultDataDir()+")")
	root.PersistentFlags().StringVar(&c.config, "config", "", "configuration file (default "+config.DefaultPath()+")")
	root.PersistentFlags().BoolVarP(&c.verbose, "verbose", "v", false, "log details to standard error; run and logs tell what a model thought")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		c.serveCommand(), c.runCommand(), c.listCommand(), c.showCommand(), c.logsCommand(),
		c.interruptCommand(), c.retryCommand(), c.answerCommand(), c.archiveCommand(),
		c.attachCommand(), c.startCommand(), c.stopCommand(), c.unpauseCommand(), c.snapshotCommand(), c.forkCommand(), c.restartCommand(), c.releaseCommand(), c.reprovisionCommand(), c.closeCommand(),
		c.execCommand(), c.toolCommand(), c.imageCommand(), c.tokenCommand(), c.doctorCommand(), c.versionCommand(), c.benchCommand(),
	)
	usageArgs(root)
	return root
}

// group makes a command of verbs: alone it prints its help, and a verb that it
// does not have is a mistake of usage.
func group(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(verbs...)
	return cmd
}

// usageArgs makes wrong arguments a mistake of usage.
func usageArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
			}
			if len(args) > 0 && strings.TrimSpace(args[0]) == "" && strings.Contains(cmd.Use, " SESSION") {
				return usageError{errors.New("the name of the session is empty; glovebox ls lists the sessions")}
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		usageArgs(sub)
	}
}

// data returns the data directory, absolute.
func (c *cli) data() (string, error) {
	dir := c.dataDir
	if dir == "" {
		dir = defaultDataDir()
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", usageError{fmt.Errorf("--data: %w", err)}
	}
	return abs, nil
}

// defaultDataDir is below /var/lib for root, so that the owners of workspaces
// can reach their sandboxes' files there, else in the user's data directory.
func defaultDataDir() string {
	if dir := os.Getenv("GLOVEBOX_DATA"); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return "/var/lib/glovebox"
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "glovebox")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "glovebox-data"
	}
	return filepath.Join(home, ".local", "share", "glovebox")
}

func (c *cli) loadConfig() (config.Config, error) {
	path, named := c.config, c.config != ""
	if !named {
		path = config.DefaultPath()
	}
	cfg, err := config.Load(path, named)
	if err == nil {
		err = cfg.FromEnv(os.Getenv)
	}
	if err == nil {
		if _, bad := agent.CheckPlugins(cfg.Agent.Plugins); bad != nil {
			err = fmt.Errorf("%s: %w", path, &sandbox.FieldError{Field: "agent.plugins", Reason: bad.Error()})
		}
	}
	if err != nil {
		return cfg, usageError{err} // file and environment are as much typed as a flag
	}
	return cfg, nil
}

func (c *cli) logger() *slog.Logger {
	level := slog.LevelWarn
	if c.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(c.err, &slog.HandlerOptions{Level: level}))
}

// newApp builds the server of the data directory; expose is as in Options.
func (c *cli) newApp(ctx context.Context, addr, expose string, window httpapi.Window, part Part) (*App, error) {
	dir, err := c.data()
	if err != nil {
		return nil, err
	}
	cfg, err := c.loadConfig()
	if err != nil {
		return nil, err
	}
	if addr == "" {
		addr = cfg.Addr
	}
	if addr == "" {
		addr = defaultAddr
	}
	app, err := New(ctx, Options{DataDir: dir, Addr: addr, Expose: expose, Config: cfg, Window: window, Part: part, Log: c.logger()})
	if err != nil {
		return nil, asUsage(err)
	}
	return app, nil
}

const defaultAddr = "127.0.0.1:7333"

// lookTime is how long a verb waits for a process that has the data directory and
// does not say where it serves: one that starts, or one that only looks.
const lookTime = 15 * time.Second

// connect returns a client of the data directory's server: the one that runs,
// or else one of this process's own that does its part, which close ends.
func (c *cli) connect(ctx context.Context, part Part) (client *apiClient, close func() error, err error) {
	dir, err := c.data()
	if err != nil {
		return nil, nil, err
	}
	if c.config != "" { // the server that runs has its own, but what is named must be good
		if _, err := c.loadConfig(); err != nil {
			return nil, nil, err
		}
	}
	var app *App
	for deadline := time.Now().Add(lookTime); ; {
		if owner, ok := store.Peek(dir); ok && owner.URL != "" {
			if c.config != "" {
				fmt.Fprintf(c.err, "glovebox: --config is not used: the server at %s runs with its own configuration\n", owner.URL)
			}
			client, err := newClient(owner.URL, dir)
			return client, func() error { return nil }, err
		}
		if app, err = c.newApp(ctx, "127.0.0.1:0", "", nil, part); err == nil {
			break
		}
		var held *store.HeldError
		if !errors.As(err, &held) || time.Now().After(deadline) {
			return nil, nil, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	if client, err = newClient(app.URL(), dir); err != nil {
		return nil, nil, errors.Join(err, app.close())
	}
	client.own = true
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // ends by close, after the verb has said its last word
	ended := make(chan error, 1)                                // its one sender never blocks
	go func() { ended <- app.Run(life) }()
	select { // the verb wants states, and has them once they were looked at
	case <-app.lifetime.Ready():
	case err := <-ended:
		ended <- err
	}
	return client, func() error { end(); return <-ended }, nil
}

// withClient runs a verb that acts on what is there against the server.
func (c *cli) withClient(ctx context.Context, verb func(*apiClient) error) error {
	if err := c.existing(); err != nil {
		return err
	}
	return c.with(ctx, PartAct, verb)
}

// look runs a verb that only reads against the server.
func (c *cli) look(ctx context.Context, verb func(*apiClient) error) error {
	if err := c.existing(); err != nil {
		return err
	}
	return c.with(ctx, PartLook, verb)
}

// existing refuses a data directory that nobody has used: to make one for a verb
// that needs what is in it would hide that its name is mistyped.
func (c *cli) existing() error {
	dir, err := c.data()
	if err != nil {
		return err
	}
	if _, begins := store.Peek(dir); begins || store.Exists(dir) {
		return nil
	}
	return usageError{fmt.Errorf("there is no Glovebox data in %s; glovebox run and glovebox serve make it, --data names another directory", dir)}
}

// with runs a verb against the server; the data directory is made when missing.
func (c *cli) with(ctx context.Context, part Part, verb func(*apiClient) error) error {
	client, close, err := c.connect(ctx, part)
	if err != nil {
		return err
	}
	err = verb(client)
	return errors.Join(err, close())
}
