package files

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// TestOpen_linkPutThereMeanwhile exchanges a directory for a link after its path
// was judged and before it is opened: the one moment at which a command of the
// sandbox could lead a file operation to what it may not see.
func TestOpen_linkPutThereMeanwhile(t *testing.T) {
	ops := map[string]func(ctx context.Context, e *Engine, ws string) (string, error){
		"read": func(ctx context.Context, e *Engine, ws string) (string, error) {
			r, err := e.ReadFile(ctx, execenv.ReadRequest{Path: ws + "/d/f"})
			return string(r.Data), err
		},
		"list": func(ctx context.Context, e *Engine, ws string) (string, error) {
			r, err := e.List(ctx, ws+"/d")
			var names []string
			for _, f := range r.Entries {
				names = append(names, f.Path)
			}
			return strings.Join(names, " "), err
		},
		"grep a file": func(ctx context.Context, e *Engine, ws string) (string, error) {
			r, err := e.Grep(ctx, execenv.GrepRequest{Path: ws + "/d/f", Pattern: ".", Mode: execenv.GrepContent})
			return rowTexts(r), err
		},
		"grep a directory": func(ctx context.Context, e *Engine, ws string) (string, error) {
			r, _ := e.Grep(ctx, execenv.GrepRequest{Path: ws, Pattern: ".", Mode: execenv.GrepContent, All: true})
			return rowTexts(r), nil
		},
		"glob": func(ctx context.Context, e *Engine, ws string) (string, error) {
			r, _ := e.Glob(ctx, execenv.GlobRequest{Base: ws, Pattern: "**/secret*", All: true})
			var names []string
			for _, f := range r.Files {
				names = append(names, f.Path)
			}
			return strings.Join(names, " "), nil
		},
		"snapshot": func(ctx context.Context, e *Engine, ws string) (string, error) {
			r, err := e.Snapshot(ctx, execenv.SnapshotRequest{Roots: []string{ws}, ContentName: "f"})
			var all strings.Builder
			for path, content := range r.Contents {
				all.WriteString(path + string(content))
			}
			return strings.Join(r.Files, " ") + all.String(), err
		},
	}
	for name, do := range ops {
		for _, moment := range []string{"/d", "/d/f"} {
			t.Run(name+" judged at "+moment, func(t *testing.T) {
				top := t.TempDir()
				ws, hidden := filepath.Join(top, "ws"), filepath.Join(top, "hidden")
				for _, dir := range []string{filepath.Join(ws, "d"), hidden} {
					if err := os.MkdirAll(dir, 0o755); err != nil {
						t.Fatal(err)
					}
				}
				write(t, filepath.Join(ws, "d", "f"), "plain")
				write(t, filepath.Join(hidden, "f"), "secret")
				write(t, filepath.Join(hidden, "secret"), "secret")
				if err := os.Symlink(hidden, filepath.Join(top, "link")); err != nil {
					t.Fatal(err)
				}
				swapped := false
				e := New(Options{Refuse: func(path string, _ bool) error {
					if path == ws+moment && !swapped {
						swapped = true
						return unix.Renameat2(unix.AT_FDCWD, filepath.Join(ws, "d"), unix.AT_FDCWD, filepath.Join(top, "link"), unix.RENAME_EXCHANGE)
					}
					if inside(hidden, path) {
						return execenv.ErrPermission
					}
					return nil
				}})
				got, err := do(t.Context(), e, ws)
				if strings.Contains(got, "secret") {
					t.Errorf("what is behind the link was shown: %q", got)
				}
				if swapped && name == "read" && err == nil {
					t.Errorf("read %q, with no word of the link", got)
				}
			})
		}
	}
}

func rowTexts(r execenv.GrepResult) string {
	var texts []string
	for _, row := range r.Rows {
		texts = append(texts, row.Text)
	}
	return strings.Join(texts, " ")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestOpenByNames_isLikeOpenat2 holds the way of older kernels to the same.
func TestOpenByNames_isLikeOpenat2(t *testing.T) {
	top := t.TempDir()
	if err := os.Mkdir(filepath.Join(top, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(top, "d", "f"), "text")
	for link, to := range map[string]string{"ld": "d", "lf": "d/f"} {
		if err := os.Symlink(to, filepath.Join(top, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, works := range map[string]bool{
		"/": true, top: true, top + "/d/f": true, top + "//d/f": true,
		top + "/ld/f": false, top + "/lf": false, top + "/d/gone": false, top + "/d/f/x": false,
	} {
		for name, open := range map[string]func(string, int) (int, error){"openat2": openNoLinks, "names": openByNames} {
			fd, err := open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
			if err == nil {
				unix.Close(fd)
			}
			if (err == nil) != works {
				t.Errorf("%s by %s: %v, want it to work: %v", path, name, err, works)
			}
		}
	}
}

// TestSearch_endsByItself searches what has no end in reach.
func TestSearch_endsByItself(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "needle\n")
	f, err := os.Create(filepath.Join(dir, "b"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(8 << 40); err != nil {
		t.Skipf("no file of that size here: %v", err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "b")} {
		var r execenv.GrepResult
		var err error
		// What has an end is searched as well, in a time that a machine has to have.
		for limit := 50 * time.Millisecond; limit < 30*time.Second; limit *= 2 {
			r, err = New(Options{SearchTime: limit}).Grep(t.Context(), execenv.GrepRequest{Path: path, Pattern: "needle"})
			if len(r.Rows) > 0 || path != dir {
				break
			}
		}
		if err != nil || !r.Truncated || !cmp.Equal(r.Warnings, []string{errSearchTime.Error()}) {
			t.Errorf("Grep(%s) = %+v, %v", path, r, err)
		}
		if found := len(r.Rows) == 1; found != (path == dir) {
			t.Errorf("Grep(%s) found %+v", path, r.Rows)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if r, err := New(Options{}).Grep(ctx, execenv.GrepRequest{Path: dir, Pattern: "needle"}); err == nil {
		t.Errorf("a search whose caller went away: %+v", r)
	}
}

// TestSearch_leavesKernelTreesOut: a search of everything ends, and says what it
// left out.
func TestSearch_leavesKernelTreesOut(t *testing.T) {
	var warned []string
	w := walk{
		ctx: t.Context(), engine: New(Options{}), all: true,
		visit: func(f found) bool {
			if strings.HasPrefix(f.path, "/proc/") || strings.HasPrefix(f.path, "/sys/") || strings.HasPrefix(f.path, "/dev/") {
				t.Errorf("came to %s", f.path)
			}
			return true
		},
		warn: func(path string, err error) { warned = append(warned, path+" "+err.Error()) },
	}
	var err error
	if w.pattern, err = parsePattern("{proc,sys,dev}/*"); err != nil {
		t.Fatal(err)
	}
	if err := w.run("/"); err != nil {
		t.Fatal(err)
	}
	if len(warned) != 3 {
		t.Errorf("warnings: %q", warned)
	}
	if r, err := New(Options{}).Glob(t.Context(), execenv.GlobRequest{Base: "/proc", Pattern: "version"}); err != nil || len(r.Files) != 1 {
		t.Errorf("Glob below /proc = %+v, %v", r, err)
	}
}
