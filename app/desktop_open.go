//go:build desktop

package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/glovebox-dev/glovebox/backend/store"
)

// openDoes says what the program does without a verb.
const openDoes = "opens its window"

// open starts without a verb: it serves the screen and shows it in a window.
// Closing the window ends the program, as a signal does.
func (c *cli) open(ctx context.Context) error {
	gpu, err := gpuPolicy()
	if err != nil {
		return err
	}
	if !hasDisplay() {
		return errNoDisplay
	}
	if err := loadWebview(); err != nil {
		return err
	}
	w := newDesktop()
	app, err := c.newApp(ctx, "", "", w, PartServe)
	var held *store.HeldError
	if errors.As(err, &held) {
		return c.another(ctx, held)
	}
	if err != nil {
		return err
	}
	life, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, 1) // its one sender never blocks
	go func() {
		err := app.Run(life)
		if life.Err() == nil {
			w.quit() // a server that failed takes its window with it
		}
		ended <- err
	}()
	// Wails listens for signals as well: it closes the window at the first one,
	// and would swallow the second, which ends the program at once.
	stop := context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })
	defer stop()
	shown := w.show(app.URL()+"/#token="+app.identity.token, gpu)
	end()
	return errors.Join(shown, <-ended)
}

// errNoDisplay says what to do where no window can be shown.
var errNoDisplay = errors.New("there is no display to show a window on (DISPLAY and WAYLAND_DISPLAY name none that answers);\n" +
	"run: glovebox serve, and open the address that it prints in a browser")

// gpuEnv names the variable that says whether the window draws with the GPU:
// some drivers show nothing but a blank window.
const gpuEnv = "GLOVEBOX_GPU"

// gpuPolicy returns one of "auto", "on" and "off".
func gpuPolicy() (string, error) {
	switch v := os.Getenv(gpuEnv); v {
	case "":
		return "auto", nil
	case "auto", "on", "off":
		return v, nil
	default:
		return "", usageError{fmt.Errorf("%s is %q; choose auto, on or off", gpuEnv, v)}
	}
}

// another answers a start while another process serves the data directory: its
// window comes to the front, or, where it has none, its page opens in a browser.
func (c *cli) another(ctx context.Context, held *store.HeldError) error {
	if held.URL == "" {
		return held
	}
	client, err := newClient(held.URL, held.Dir)
	if err != nil {
		return err
	}
	var api *apiError
	err = client.call(ctx, http.MethodPost, "/window/show", nil, nil)
	if err == nil {
		_, err = fmt.Fprintf(c.out, "Glovebox is open already (process %d): its window was brought to the front.\n", held.PID)
		return err
	}
	if !errors.As(err, &api) || api.Code != "no_window" {
		return err
	}
	if err := openPage(ctx, client.base, held.Dir, client.token); err != nil {
		return fmt.Errorf("%w; its page could not be opened in a browser: %v", held, err)
	}
	_, err = fmt.Fprintf(c.out, "Glovebox is served already (process %d): its page was opened in a browser.\n", held.PID)
	return err
}
