//go:build desktop

package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"os"
	"sync"

	"github.com/wailsapp/wails/v2"
	"github.com/wailsapp/wails/v2/pkg/menu"
	"github.com/wailsapp/wails/v2/pkg/menu/keys"
	"github.com/wailsapp/wails/v2/pkg/options"
	"github.com/wailsapp/wails/v2/pkg/options/assetserver"
	"github.com/wailsapp/wails/v2/pkg/options/linux"
	"github.com/wailsapp/wails/v2/pkg/runtime"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
)

// desktop is the window. Its page is the server's own: Wails loads a page of one
// line that leads there, so that nothing in it differs from a browser.
type desktop struct {
	ready  chan struct{}   // closed once life is set
	closed chan struct{}   // closed once the window is gone, or cannot be shown
	life   context.Context // of the window; what the runtime's functions take

	notices sync.Once
	noticed error // why there are no notifications
}

func newDesktop() *desktop {
	return &desktop{ready: make(chan struct{}), closed: make(chan struct{})}
}

var leadPage = template.Must(template.New("lead").Parse(
	`<!doctype html><title>Glovebox</title><script>location.replace({{.}})</script>`))

// show shows the window and returns when it was closed.
func (d *desktop) show(address, gpu string) error {
	defer close(d.closed)
	policy := map[string]linux.WebviewGpuPolicy{
		"auto": linux.WebviewGpuPolicyOnDemand, "on": linux.WebviewGpuPolicyAlways, "off": linux.WebviewGpuPolicyNever,
	}
	lead := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = leadPage.Execute(w, address) // the webview is in this process
	}
	err := wails.Run(&options.App{
		Title: "Glovebox", Width: 1280, Height: 820, MinWidth: 360, MinHeight: 400,
		AssetServer: &assetserver.Options{Handler: http.HandlerFunc(lead)},
		Menu:        d.menu(),
		OnStartup:   func(ctx context.Context) { d.life = ctx; close(d.ready) },
		Linux:       &linux.Options{ProgramName: "glovebox", WebviewGpuPolicy: policy[gpu]},
	})
	if err != nil {
		return fmt.Errorf("show the window: %w", err)
	}
	return nil
}

// menu names the actions that the page has under the same names.
func (d *desktop) menu() *menu.Menu {
	act := func(action string) menu.Callback {
		return func(*menu.CallbackData) {
			runtime.WindowExecJS(d.life, `dispatchEvent(new CustomEvent("glovebox:action",{detail:"`+action+`"}))`)
		}
	}
	m := menu.NewMenu()
	file := m.AddSubmenu("Glovebox")
	file.AddText("New session…", keys.CmdOrCtrl("n"), act("new-session"))
	file.AddText("Stop all turns", nil, act("stop-all"))
	file.AddSeparator()
	file.AddText("Quit", keys.CmdOrCtrl("q"), func(*menu.CallbackData) { d.quit() })
	view := m.AddSubmenu("View")
	view.AddText("All actions…", nil, act("palette"))
	view.AddText("Container", nil, act("view-container"))
	view.AddText("Terminal", nil, act("view-terminal"))
	view.AddText("Files", nil, act("view-files"))
	view.AddSeparator()
	view.AddText("Reload", keys.CmdOrCtrl("r"), func(*menu.CallbackData) { runtime.WindowExecJS(d.life, "location.reload()") })
	help := m.AddSubmenu("Help")
	help.AddText("Keys", nil, act("help"))
	return m
}

// window returns the runtime's context once the window is there, and false when
// it is not there any more.
func (d *desktop) window() (context.Context, bool) {
	select {
	case <-d.closed:
		return nil, false
	case <-d.ready:
		return d.life, true
	}
}

// quit closes the window.
func (d *desktop) quit() {
	if life, ok := d.window(); ok {
		runtime.Quit(life)
	}
}

var errClosed = errors.New("the window is closed")

// PickFolder implements httpapi.Window.
func (d *desktop) PickFolder(_ context.Context, start string) (string, error) {
	life, ok := d.window()
	if !ok {
		return "", errClosed
	}
	if info, err := os.Stat(start); err != nil || !info.IsDir() {
		start = ""
	}
	return runtime.OpenDirectoryDialog(life, runtime.OpenDialogOptions{
		Title: "Choose a workspace", DefaultDirectory: start, CanCreateDirectories: true,
	})
}

// OpenLink implements httpapi.Window.
func (d *desktop) OpenLink(address string) error {
	life, ok := d.window()
	if !ok {
		return errClosed
	}
	runtime.BrowserOpenURL(life, address)
	return nil
}

// Notify implements httpapi.Window.
func (d *desktop) Notify(title, body string) error {
	life, ok := d.window()
	if !ok {
		return errClosed
	}
	d.notices.Do(func() { d.noticed = runtime.InitializeNotifications(life) })
	if d.noticed != nil {
		return fmt.Errorf("%w: %v", httpapi.ErrNoNotices, d.noticed)
	}
	return runtime.SendNotification(life, runtime.NotificationOptions{ID: rand.Text(), Title: title, Body: body})
}

// Show implements httpapi.Window.
func (d *desktop) Show() error {
	life, ok := d.window()
	if !ok {
		return errClosed
	}
	runtime.WindowUnminimise(life)
	runtime.Show(life)
	runtime.WindowShow(life)
	return nil
}
