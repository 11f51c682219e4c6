package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

type serveFlags struct {
	addr   string
	expose string
	noOpen bool
	json   bool
}

func (c *cli) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the screen and the API on this machine",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.serve(cmd.Context(), f) },
	}
	cmd.Flags().StringVar(&f.addr, "addr", "", "address to listen on (default "+defaultAddr+")")
	cmd.Flags().StringVar(&f.expose, "expose", "", "allow an --addr beyond loopback, as in a container, and answer to this address: http://HOST:PORT as people open it; whoever reaches it needs the token")
	cmd.Flags().BoolVar(&f.noOpen, "no-open", false, "do not open a browser")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the ready line as JSON")
	return cmd
}

func (c *cli) serve(ctx context.Context, f serveFlags) error {
	app, err := c.newApp(ctx, f.addr, f.expose, nil, PartServe)
	if err != nil {
		return err
	}
	wall, err := app.defaultWall(ctx)
	if err != nil {
		return errors.Join(err, app.close())
	}
	ended := make(chan error, 1) // its one sender never blocks
	go func() { ended <- app.Run(ctx) }()
	if err := c.ready(app, wall, f); err != nil {
		app.log.Warn("ready line", "err", err)
	}
	if !f.noOpen && interactive() {
		if err := openPage(ctx, app.URL(), app.o.DataDir, app.identity.token); err != nil {
			app.log.Info("no browser opened", "err", err)
		}
	}
	return <-ended
}

// ready prints the one line that says where the server is. The token is for the
// terminal alone: the JSON form names the file that holds it.
func (c *cli) ready(app *App, wall sandbox.Wall, f serveFlags) error {
	if f.json {
		return json.NewEncoder(c.out).Encode(map[string]any{
			"type": "ready", "url": app.shown(), "token_file": filepath.Join(app.o.DataDir, tokenFile),
			"pid": os.Getpid(), "data": app.o.DataDir, "wall": wall,
		})
	}
	_, err := fmt.Fprintf(c.out, "Glovebox is ready behind the %s wall: %s/#token=%s\n", wall, app.shown(), app.identity.token)
	return err
}

// interactive reports whether a person with a screen started this.
func interactive() bool {
	info, err := os.Stdout.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && hasDisplay()
}

// hasDisplay reports whether a display server is named.
func hasDisplay() bool { return os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "" }

// openPage opens a page in the data directory that leads to the server: the
// address with the token on a command line would be there for all to read.
func openPage(ctx context.Context, base, dataDir, token string) error {
	target := html.EscapeString(base + "/#token=" + token)
	page := filepath.Join(dataDir, "open.html")
	body := `<!doctype html><meta http-equiv="refresh" content="0; url=` + target + `"><a href="` + target + `">Glovebox</a>`
	if err := os.WriteFile(page, []byte(body), 0o600); err != nil {
		return err
	}
	return exec.CommandContext(ctx, "xdg-open", page).Run()
}

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text := "glovebox " + Version
			if commit := Commit(); commit != "" {
				text += " (" + commit + ")"
			}
			_, err := fmt.Fprintln(c.out, text)
			return err
		},
	}
}
