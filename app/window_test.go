package app

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/store"
)

// desktopEnv names the program that was built with a window; see make desktop.
const desktopEnv = "GLOVEBOX_DESKTOP"

// webviewFile is the library that the program loads when it opens its window.
const webviewFile = "libwebkit2gtk-4.1.so.0"

// desktopProgram returns its path, or skips.
func desktopProgram(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(os.Getenv(desktopEnv))
	if err != nil {
		t.Fatal(err)
	}
	missing := ""
	if os.Getenv(desktopEnv) == "" {
		missing = desktopEnv + " is not set; run the tests by: make go-test"
	} else if _, err := os.Stat(path); err != nil {
		missing = err.Error()
	}
	for _, tool := range []string{"Xvfb", "xdotool"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = err.Error()
		}
	}
	if missing != "" && required("xvfb") {
		t.Fatalf("the window is required: %s", missing)
	}
	if missing != "" {
		t.Skip(missing)
	}
	return path
}

// display is a virtual one.
type display struct {
	t    *testing.T
	name string
	file string // the frame buffer, as an X window dump
}

func newDisplay(t *testing.T) *display {
	t.Helper()
	dir := t.TempDir()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("Xvfb", "-displayfd", "3", "-screen", "0", "1280x820x24", "-nolisten", "tcp", "-noreset", "-fbdir", dir)
	cmd.ExtraFiles = []*os.File{w}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
	})
	number := make([]byte, 16)
	n, err := r.Read(number)
	if err != nil {
		t.Fatalf("Xvfb did not start: %v", err)
	}
	d := &display{t: t, name: ":" + strings.TrimSpace(string(number[:n])), file: filepath.Join(dir, "Xvfb_screen0")}
	eventually(t, "a display that answers", func() bool {
		_, err := x(d, "getdisplaygeometry")
		return err == nil
	})
	return d
}

// picture reads the screen.
func (d *display) picture() image.Image {
	d.t.Helper()
	dump, err := os.ReadFile(d.file)
	if err != nil {
		d.t.Fatal(err)
	}
	field := func(i int) int { return int(binary.BigEndian.Uint32(dump[4*i:])) }
	// XWDFileHeader: its own size, then at 4 and 5 width and height, at 12 the
	// bytes of a line, at 19 the number of colour entries (12 bytes each).
	width, height, line := field(4), field(5), field(12)
	pixels := dump[field(0)+12*field(19):]
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			p := pixels[y*line+4*x:]
			img.Set(x, y, color.RGBA{R: p[2], G: p[1], B: p[0], A: 255})
		}
	}
	return img
}

// colours counts the colours of the screen below the menu.
func (d *display) colours() int {
	img := d.picture()
	seen := map[color.Color]bool{}
	for y := 60; y < img.Bounds().Dy(); y++ {
		for x := range img.Bounds().Dx() {
			seen[img.At(x, y)] = true
		}
	}
	return len(seen)
}

// windowed is a running program with its window on a display.
type windowed struct {
	*apiClient
	cmd  *exec.Cmd
	log  *transcript
	gone chan error
}

func openWindow(t *testing.T, program, data string, d *display, env ...string) *windowed {
	t.Helper()
	w := &windowed{cmd: exec.Command(program, "--data", data), log: &transcript{}, gone: make(chan error, 1)}
	w.cmd.Env = append(os.Environ(), "DISPLAY="+d.name, "WAYLAND_DISPLAY=", "HOME="+t.TempDir(), "XDG_CONFIG_HOME=")
	w.cmd.Env = append(w.cmd.Env, env...)
	w.cmd.Stderr = w.log
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its webview's processes with it
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { w.gone <- w.cmd.Wait() }()
	t.Cleanup(func() { _ = syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL) })
	eventually(t, "a server behind the window", func() bool {
		select {
		case err := <-w.gone:
			t.Fatalf("the window ended: %v\n%s", err, w.log)
		default:
		}
		owner, ok := store.Peek(data)
		if !ok || owner.URL == "" {
			return false
		}
		client, err := newClient(owner.URL, data)
		w.apiClient = client
		return err == nil
	})
	return w
}

// end stops the program by a signal and checks how it went.
func (w *windowed) end(t *testing.T) {
	t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-w.gone:
		if err != nil {
			t.Errorf("ended with %v\n%s", err, w.log)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("the window does not end\n%s", w.log)
	}
	eventually(t, "the end of the webview's processes", func() bool {
		return errors.Is(syscall.Kill(-w.cmd.Process.Pid, 0), syscall.ESRCH)
	})
	for _, bad := range []string{"SA_ONSTACK", "panic", "goroutine ", "CRITICAL"} {
		if strings.Contains(w.log.String(), bad) {
			t.Errorf("%q in the log:\n%s", bad, w.log)
		}
	}
}

// eventually waits for a condition that no event tells of.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(60 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("there is still not %s", what)
		}
	}
}

// configured writes a configuration that lets the system choose the port.
func configured(t *testing.T, home string) {
	t.Helper()
	dir := filepath.Join(home, ".config", "glovebox")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte("addr = \"127.0.0.1:0\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDesktop(t *testing.T) {
	program, d, data, home := desktopProgram(t), newDisplay(t), dataDir(t), t.TempDir()
	configured(t, home)
	opened := filepath.Join(home, "opened")
	bin := filepath.Join(home, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$1\" \"preloaded:$LD_PRELOAD\" >>%s\n", opened)
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	w := openWindow(t, program, data, d, "HOME="+home, "PATH="+bin+":"+os.Getenv("PATH"))
	ctx := t.Context()

	eventually(t, "a picture of the page", func() bool { return d.colours() > 60 })
	var about httpapi.About
	if err := w.call(ctx, http.MethodGet, "/about", nil, &about); err != nil || !about.Window {
		t.Errorf("about: %v, window %v", err, about.Window)
	}

	t.Run("events reach the page", func(t *testing.T) {
		before := d.picture()
		var got httpapi.Accepted
		err := w.call(ctx, http.MethodPost, "/sessions", httpapi.OpenRequest{Title: "Seen in the window", Spec: sandbox.Spec{Wall: sandbox.WallLocal}}, &got)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "another picture", func() bool { return !samePicture(before, d.picture()) })
		if err := w.call(ctx, http.MethodPost, "/sessions/"+got.SessionID+"/close", nil, nil); err != nil {
			t.Error(err)
		}
	})
	t.Run("many calls and a large one", func(t *testing.T) {
		for range 200 {
			if err := w.call(ctx, http.MethodGet, "/about", nil, &about); err != nil {
				t.Fatal(err)
			}
		}
		var api *apiError
		err := w.call(ctx, http.MethodPost, "/sessions", httpapi.OpenRequest{Goal: strings.Repeat("x", 20<<20)}, nil)
		if !errors.As(err, &api) || api.Code != "too_large" {
			t.Errorf("a body of 20 MB: %v, want one that says too large", err)
		}
	})
	t.Run("links open outside", func(t *testing.T) {
		if err := w.call(ctx, http.MethodPost, "/window/link", httpapi.LinkRequest{URL: "https://example.org/x"}, nil); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a call of the system's browser", func() bool {
			b, err := os.ReadFile(opened)
			return err == nil && string(b) == "https://example.org/x\npreloaded:\n"
		})
	})
	t.Run("the folder dialog", func(t *testing.T) {
		for key, want := range map[string]string{"Return": home, "Escape": ""} {
			picked := make(chan httpapi.FolderResponse, 1)
			failed := make(chan error, 1)
			go func() {
				var r httpapi.FolderResponse
				failed <- w.call(ctx, http.MethodPost, "/window/folder", httpapi.FolderRequest{Start: home}, &r)
				picked <- r
			}()
			eventually(t, "an answer of the dialog", func() bool {
				select {
				case err := <-failed:
					failed <- err
					return true
				default:
				}
				// Pressed again while the dialog is not ready for it.
				id, err := x(d, "search", "--onlyvisible", "--name", "Choose a workspace")
				if err == nil {
					_, _ = x(d, "windowfocus", "--sync", strings.Fields(id)[0], "key", key)
				}
				return false
			})
			if err := <-failed; err != nil {
				t.Fatal(err)
			}
			if r := <-picked; r.Path != want {
				t.Errorf("%s picked %q, want %q", key, r.Path, want)
			}
		}
	})
	t.Run("a second start", func(t *testing.T) {
		cmd := exec.Command(program, "--data", data)
		cmd.Env = w.cmd.Env
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "process "+strconv.Itoa(w.cmd.Process.Pid)) {
			t.Errorf("%v\n%s\nwant the first one named, and no error", err, out)
		}
	})
	w.end(t)
}

// A driver that draws nothing can be gone round.
func TestDesktop_gpuOff(t *testing.T) {
	program, d, home := desktopProgram(t), newDisplay(t), t.TempDir()
	configured(t, home)
	w := openWindow(t, program, dataDir(t), d, "HOME="+home, "GLOVEBOX_GPU=off")
	eventually(t, "a picture of the page", func() bool { return d.colours() > 60 })
	w.end(t)
}

func TestDesktop_refuses(t *testing.T) {
	program, data, libs := desktopProgram(t), dataDir(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(libs, webviewFile), []byte(strings.Repeat("not a library ", 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		env  []string
		code int
		say  string
	}{
		{"no display", []string{"DISPLAY=", "WAYLAND_DISPLAY="}, exitFailed, "glovebox serve"},
		{"a dead display", []string{"DISPLAY=:9999", "WAYLAND_DISPLAY="}, exitFailed, "glovebox serve"},
		{"no webview", []string{"DISPLAY=:9999", "LD_LIBRARY_PATH=" + libs}, exitFailed, "apt-get install libwebkit2gtk-4.1-0"},
		{"unknown policy", []string{"DISPLAY=:9999", "GLOVEBOX_GPU=maybe"}, exitUsage, "auto, on or off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(program, "--data", data)
			cmd.Env = append(os.Environ(), c.env...)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != c.code || !strings.Contains(string(out), c.say) {
				t.Errorf("%v, want exit code %d and %q:\n%s", err, c.code, c.say, out)
			}
			if bytes.Count(out, []byte("\n")) > 3 {
				t.Errorf("more than a message:\n%s", out)
			}
		})
	}
}

// The same file serves, and has every verb, where there is no display.
func TestDesktop_serves(t *testing.T) {
	program, data := desktopProgram(t), dataDir(t)
	cmd := exec.Command(program, "serve", "--json", "--no-open", "--addr", "127.0.0.1:0", "--data", data)
	cmd.Env = append(os.Environ(), "DISPLAY=", "WAYLAND_DISPLAY=")
	s := startCommand(t, data, cmd)
	var about httpapi.About
	if err := s.call(t.Context(), http.MethodGet, "/about", nil, &about); err != nil || about.Window {
		t.Errorf("about: %v, window %v, want none", err, about.Window)
	}
}

// x runs a verb of xdotool.
func x(d *display, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(d.t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "xdotool", args...)
	cmd.Env = append(os.Environ(), "DISPLAY="+d.name)
	out, err := cmd.Output()
	return string(out), err
}

func samePicture(a, b image.Image) bool {
	return bytes.Equal(a.(*image.RGBA).Pix, b.(*image.RGBA).Pix)
}
