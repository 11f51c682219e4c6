//go:build linux

package chromium

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	make := func(name, body string) string {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(body), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	stub := make("bin/chromium-browser", "#!/bin/sh\nexec /snap/bin/chromium \"$@\"\n")
	chrome := make("bin/google-chrome", "#!/bin/sh\n")
	make("pw/chromium-999/chrome-linux/chrome", "")
	newest := make("pw/chromium-1148/chrome-linux64/chrome", "")
	look := func(files ...string) func(string) string {
		return func(name string) string {
			for _, f := range files {
				if filepath.Base(f) == name {
					return f
				}
			}
			return ""
		}
	}
	none := func(string) string { return "" }
	playwright := func(name string) string {
		if name == "PLAYWRIGHT_BROWSERS_PATH" {
			return filepath.Join(dir, "pw")
		}
		return ""
	}
	if got, err := find(look(stub, chrome), none); err != nil || got != chrome {
		t.Errorf("beside a stub of a snap: %q, %v", got, err)
	}
	if got, err := find(look(), playwright); err != nil || got != newest {
		t.Errorf("Playwright's: %q, %v, want %q", got, err, newest)
	}
	if _, err := find(look(chrome), playwright); err != nil {
		t.Error(err)
	}
	root := func(name string) string {
		return map[string]string{"HOME": "/root", "PLAYWRIGHT_BROWSERS_PATH": "/ms-playwright"}[name]
	}
	off, err := find(look(stub), root)
	if err == nil {
		t.Skipf("this machine has a browser off the PATH: %s", off)
	}
	var missing *NotFoundError
	if !errors.As(err, &missing) || !errors.Is(err, execenv.ErrNoBrowser) || !slices.Contains(missing.Looked, "google-chrome-stable") {
		t.Fatalf("where there is none: %v", err)
	}
	advice, list, _ := strings.Cut(err.Error(), "\n")
	if !strings.Contains(advice, "glovebox image build") || strings.Contains(advice, "/") {
		t.Errorf("it does not begin with what to do: %q", advice)
	}
	if want := "looked for " + strings.Join(names, ", ") + " on the PATH, and in /opt/google/chrome, /headless-shell, /ms-playwright, /root/.cache/ms-playwright"; list != want {
		t.Errorf("then %q, want %q", list, want)
	}
	for i, place := range missing.Looked {
		if slices.Contains(missing.Looked[:i], place) {
			t.Errorf("looked for %s twice", place)
		}
	}
	off, err = find(look(stub), none)
	if !errors.As(err, &missing) {
		t.Fatalf("without a HOME: %q, %v", off, err)
	}
	if slices.ContainsFunc(missing.Looked, func(s string) bool { return strings.HasPrefix(s, "$") || strings.HasPrefix(s, "/.cache") }) {
		t.Errorf("looked for %q", missing.Looked)
	}
}

func TestArguments(t *testing.T) {
	plain := arguments("/bin/chromium", "/p", "", true, false)
	for _, flag := range plain {
		if strings.HasPrefix(flag, "--proxy") || flag == "--no-sandbox" || flag == "--disable-dev-shm-usage" || strings.HasPrefix(flag, "--remote-debugging-port") {
			t.Errorf("%s is there without a reason", flag)
		}
	}
	all := arguments("/bin/chromium", "/p", "127.0.0.1:3128", false, true)
	for _, flag := range []string{"--proxy-server=http://127.0.0.1:3128", "--no-sandbox", "--disable-dev-shm-usage", "--remote-debugging-pipe", "--user-data-dir=/p"} {
		if !slices.Contains(all, flag) {
			t.Errorf("%s is missing", flag)
		}
	}
	if all[len(all)-1] != blankPage {
		t.Errorf("it opens %s", all[len(all)-1])
	}
}

func TestTakeProfile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "profile")
	for _, owner := range []string{"", "other-1", "here-999999", "here-1", "nonsense", "here-"} {
		if owner != "" {
			if err := os.Symlink(owner, filepath.Join(dir, "SingletonLock")); err != nil {
				t.Fatal(err)
			}
		}
		p, err := takeProfile(dir, "here")
		if err != nil {
			t.Fatalf("after %q: %v", owner, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "SingletonLock")); err == nil {
			t.Errorf("the lock of %q is still there", owner)
		}
		if _, err := takeProfile(dir, "here"); !errors.Is(err, execenv.ErrBusy) {
			t.Errorf("a second one: %v", err)
		}
		p.close()
	}
	// A link in place of the lock leads nobody elsewhere.
	if err := os.Remove(filepath.Join(dir, profileLock)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, profileLock)); err != nil {
		t.Fatal(err)
	}
	if _, err := takeProfile(dir, "here"); err == nil {
		t.Error("a lock that is a link was opened")
	}
}
