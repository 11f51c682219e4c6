package chromium

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// names are what a browser is called on a PATH, the ones that are kept up to date
// with a system first.
var names = []string{
	"chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome",
	"headless-shell", "chrome-headless-shell",
}

// places are where browsers lie that no PATH leads to. A variable that is not
// set takes its place out; of several matches the one with the highest number is
// taken, which is how Playwright names its versions.
var places = []string{
	"/opt/google/chrome/google-chrome",
	"/headless-shell/headless-shell",
	"$PLAYWRIGHT_BROWSERS_PATH/chromium-*/chrome-linux*/chrome",
	"/ms-playwright/chromium-*/chrome-linux*/chrome",
	"$HOME/.cache/ms-playwright/chromium-*/chrome-linux*/chrome",
	"/root/.cache/ms-playwright/chromium-*/chrome-linux*/chrome",
	"/ms-playwright/chromium_headless_shell-*/chrome-linux*/headless_shell",
}

// NotFoundError says that there is no browser, what to do, and on a line of its
// own where one was looked for. It is execenv.ErrNoBrowser.
type NotFoundError struct {
	Looked []string // names on the PATH, and files
}

func (e *NotFoundError) Error() string {
	var names, dirs []string
	for _, file := range e.Looked {
		if !strings.Contains(file, "/") {
			names = append(names, file)
			continue
		}
		before, _, _ := strings.Cut(file, "*")
		if dir := filepath.Dir(before); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return fmt.Sprintf("%v: choose an image that has Chromium (glovebox image build makes one), or install it there; "+
		"behind the namespace wall install Chromium on this machine\nlooked for %s on the PATH, and in %s",
		execenv.ErrNoBrowser, strings.Join(names, ", "), strings.Join(dirs, ", "))
}

func (e *NotFoundError) Unwrap() error { return execenv.ErrNoBrowser }

// find returns the file of a browser. look finds a program on the PATH, getenv a
// variable of the commands' environment.
func find(look, getenv func(name string) string) (string, error) {
	for _, name := range names {
		if file := look(name); file != "" && !isSnapStub(file) {
			return file, nil
		}
	}
	looked := slices.Clone(names)
	for _, place := range places {
		set := true
		pattern := os.Expand(place, func(name string) string {
			value := getenv(name)
			set = set && value != ""
			return value
		})
		if !set || slices.Contains(looked, pattern) { // root's HOME is a place of its own too
			continue
		}
		looked = append(looked, pattern)
		found, err := filepath.Glob(pattern)
		if err != nil {
			continue // a variable's value with a bracket in it
		}
		slices.SortFunc(found, func(a, b string) int { return versionOf(b) - versionOf(a) })
		for _, file := range found {
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return file, nil
			}
		}
	}
	return "", &NotFoundError{Looked: looked}
}

// versionOf returns the first number in a path that follows a dash.
func versionOf(path string) (n int) {
	for part := range strings.SplitSeq(path, "/") {
		_, digits, ok := strings.Cut(part, "-")
		if !ok || digits == "" || digits[0] < '0' || digits[0] > '9' {
			continue
		}
		for _, d := range digits {
			if d < '0' || d > '9' || n > 1<<24 {
				break
			}
			n = 10*n + int(d-'0')
		}
		return n
	}
	return 0
}

// isSnapStub says whether a file is Ubuntu's script that only tells where its
// browser has gone: into a snap, which does not run in a sandbox.
func isSnapStub(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 4<<10))
	return err == nil && bytes.HasPrefix(head, []byte("#!")) && bytes.Contains(head, []byte("/snap/"))
}
