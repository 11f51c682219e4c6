package app

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// A link in the workspace leads no tool, and no reader of the host's, to files of
// this machine that the sandbox was not given, whatever wall there is.
func TestLinks_outOfTheWorkspace(t *testing.T) {
	t.Parallel()
	shared := start(t, dataDir(t))
	anyWall(t, func(t *testing.T, wall sandbox.Wall) {
		s := shared.in(t)
		ws, outside := workspace(t, 1000), workspace(t, 1000)
		const secret = "only this machine has it"
		victim := filepath.Join(outside, "victim")
		write(t, victim, secret, 1000)
		write(t, filepath.Join(ws, "real"), "inside\n", 1000)
		if err := errors.Join(
			os.Symlink(victim, ws+"/notes.md"), os.Symlink(outside, ws+"/sub"), os.Symlink(outside+"/new", ws+"/draft"),
			os.Symlink("chain2", ws+"/chain"), os.Symlink("sub/victim", ws+"/chain2"), os.Symlink("real", ws+"/good"), os.Symlink("/etc/shadow", ws+"/x"),
		); err != nil {
			t.Fatal(err)
		}
		shadow, err := os.ReadFile("/etc/shadow")
		if err != nil && !errors.Is(err, os.ErrPermission) {
			t.Fatal(err)
		}
		id := s.place(wall, ws)
		told := func(what, text string) {
			t.Helper()
			if strings.Contains(text, secret) || len(shadow) > 0 && strings.Contains(text, strings.SplitN(string(shadow), "\n", 2)[0]) {
				t.Errorf("%s tells what is in a file of this machine: %s", what, text)
			}
		}
		root := map[bool]string{true: ws, false: "/workspace"}[wall == sandbox.WallLocal]
		for _, name := range []string{"notes.md", "sub/victim", "chain", "draft", "x", "../" + filepath.Base(outside) + "/victim", victim} {
			given := name
			if !filepath.IsAbs(name) {
				given = root + "/" + name
			}
			for _, route := range []string{"files/view", "files/raw", "files"} {
				resp := s.get(id, route, given)
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				told(route+" "+name, string(body))
				if resp.StatusCode == http.StatusOK && name != "x" { // which a sandbox has of its own
					t.Errorf("%s %s: %s %s", route, name, resp.Status, body)
				}
			}
			told("Read "+name, s.tool(id, "Read", map[string]any{"file_path": given}).Text)
			told("Grep "+name, s.tool(id, "Grep", map[string]any{"pattern": ".", "path": given, "output_mode": "content"}).Text)
			for tool, input := range map[string]any{
				"Write": map[string]any{"file_path": given, "content": "pwned"},
				"Edit":  map[string]any{"file_path": given, "old_string": "only", "new_string": "pwned"},
			} {
				if r := s.tool(id, tool, input); r.Status == task.CallOK {
					t.Errorf("%s %s: %+v", tool, name, r)
				} else if name == "notes.md" && tool == "Write" && (!strings.Contains(r.Text, "notes.md") || !strings.Contains(r.Text, victim)) {
					t.Errorf("the refusal names not both link and target: %s", r.Text)
				}
			}
		}
		told("Grep", s.tool(id, "Grep", map[string]any{"pattern": "only", "output_mode": "content"}).Text)
		if got, err := os.ReadFile(victim); err != nil || string(got) != secret {
			t.Errorf("the victim holds %q, %v", got, err)
		}
		if made, err := os.ReadDir(outside); err != nil || len(made) != 1 {
			t.Errorf("outside: %v, %v", made, err)
		}
		if r := s.tool(id, "Read", map[string]any{"file_path": "good"}); !strings.Contains(r.Text, "inside") {
			t.Errorf("a link inside: %+v", r)
		}
		if r := s.tool(id, "Edit", map[string]any{"file_path": "good", "old_string": "inside", "new_string": "changed"}); r.Status != task.CallOK {
			t.Errorf("an edit by a link inside: %+v", r)
		}
		if got, err := os.ReadFile(ws + "/real"); err != nil || string(got) != "changed\n" {
			t.Errorf("what the link leads to holds %q, %v", got, err)
		}
	})
}
