package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// A workspace may have any name, and be named in any way: what is written on
// one side of the wall is there on the other.
func TestWorkspace_oddNames(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		base, data := workspace(t, 1000), dataDir(t)
		shared := start(t, data)
		spec := sandbox.Spec{Wall: wall}
		for _, name := range []string{"a b", "a:b", "a,b", "工作 ü", `q"x'y`, "$HOME", "slash", "pointed-to", "workspace", "home/ws"} {
			given, dir := filepath.Join(base, name), filepath.Join(base, name)
			makeDir(t, dir)
			switch name {
			case "slash":
				given += "/"
			case "pointed-to":
				given = filepath.Join(base, "link")
				if err := os.Symlink(name, given); err != nil {
					t.Fatal(err)
				}
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := shared.in(t)
				var id string
				switch name {
				case "workspace":
					id = runIn(t, base, "--data", data, "--wall", string(wall), "--workspace", "./workspace")
				case "home/ws":
					id = runIn(t, base, "--data", data, "--wall", string(wall), "--workspace", "~/ws")
				default:
					id = s.opened(spec, given)
				}
				s.crosses(id, dir, "/workspace")
			})
		}
	})
}

// runIn opens a session on the command line, from a directory that holds the
// user's home, and returns the session's id.
func runIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := glovebox(append([]string{"run", "--model", scripted(t, say("ready"))}, append(args, "hello")...)...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "HOME="+filepath.Join(dir, "home"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, rest, _ := strings.Cut(string(out), "session ")
	return strings.Fields(rest)[0]
}

// crosses checks that files pass between a directory of the host and where it
// is mounted, in both directions.
func (s *server) crosses(id, dir, inside string) {
	s.t.Helper()
	if r := s.tool(id, "Write", map[string]any{"file_path": inside + "/from-inside", "content": "made inside"}); r.Status != task.CallOK {
		s.t.Fatalf("write inside: %s %q", r.Status, r.Text)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "from-inside")); err != nil || string(got) != "made inside" {
		s.t.Errorf("the host has %q (%v)", got, err)
	}
	write(s.t, filepath.Join(dir, "from-host"), "made on the host", 1000)
	if r := s.bash(id, "cat "+inside+"/from-host"); r.Status != task.CallOK || !strings.Contains(r.Text, "made on the host") {
		s.t.Errorf("the sandbox has %s %q", r.Status, r.Text)
	}
}

// Mounts that cannot be are refused by the name of their field before anything
// is made, a missing directory least of all.
func TestMounts_refused(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		data, ws, base := dataDir(t), workspace(t, 1000), workspace(t, 1000)
		s := start(t, data)
		file, missing := filepath.Join(base, "file"), filepath.Join(base, "missing")
		write(t, file, "", 1000)
		at := func(m ...sandbox.Mount) []sandbox.Mount { return m }
		for _, tt := range []struct {
			field, workspace string
			mounts           []sandbox.Mount
		}{
			{"workspace", missing, nil},
			{"workspace", filepath.Join(missing, "below"), nil},
			{"workspace", file, nil},
			{"workspace", "relative/path", nil},
			{"mounts[0].source", ws, at(sandbox.Mount{Source: missing, Target: "/m"})},
			{"mounts[0].mode", ws, at(sandbox.Mount{Source: base, Target: "/m", Mode: "rx"})},
			{"mounts[1].target", ws, at(sandbox.Mount{Source: base, Target: "/m"}, sandbox.Mount{Source: ws, Target: "/m/"})},
			{"mounts[0].target", ws, at(sandbox.Mount{Source: base, Target: "/workspace"})},
		} {
			req := httpapi.OpenRequest{Title: "refused", Workspace: tt.workspace, Spec: sandbox.Spec{Wall: wall, Mounts: tt.mounts}}
			e := wantCode(t, s.call(t.Context(), "POST", "/sessions", req, nil), "invalid_field")
			if e.Field != tt.field {
				t.Errorf("workspace %q, mounts %v: field %q (%s), want %q", tt.workspace, tt.mounts, e.Field, e.Message, tt.field)
			}
		}
		if _, err := os.Lstat(missing); !os.IsNotExist(err) {
			t.Errorf("the missing directory: %v, want that it was not made", err)
		}
		var all []httpapi.Session
		if err := s.call(t.Context(), "GET", "/sessions", nil, &all); err != nil || len(all) > 0 {
			t.Errorf("sessions %v, %v, want none", all, err)
		}
		if made := boxes(t, data); len(made) > 0 {
			t.Errorf("made: %v", made)
		}
	})
}

// A read-only mount inside the workspace cannot be written, and a refusal says
// so; what is beside it can.
func TestMounts_readOnlyInsideWorkspace(t *testing.T) {
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		ws, fixed, free := workspace(t, 1000), workspace(t, 1000), workspace(t, 1000)
		write(t, filepath.Join(fixed, "f"), "as it was", 1000)
		s := start(t, dataDir(t))
		id := s.opened(sandbox.Spec{Wall: wall, Mounts: []sandbox.Mount{
			{Source: fixed, Target: "/workspace/fixed", Mode: sandbox.ReadOnly},
			{Source: free, Target: "/workspace/free"},
		}}, ws)
		for _, r := range []httpapi.ToolResponse{
			s.bash(id, "echo changed > fixed/f"),
			s.bash(id, "touch fixed/new"),
			s.tool(id, "Write", map[string]any{"file_path": "fixed/new", "content": "x"}),
			s.tool(id, "Bash", map[string]any{"command": "rm fixed/f"}),
		} {
			if r.Status == task.CallOK || !strings.Contains(strings.ToLower(r.Text), "read-only") {
				t.Errorf("%s in a read-only mount: %s %q", r.Tool, r.Status, r.Text)
			}
		}
		if got, err := os.ReadFile(filepath.Join(fixed, "f")); err != nil || string(got) != "as it was" {
			t.Errorf("the read-only file holds %q, %v", got, err)
		}
		s.crosses(id, free, "/workspace/free")
		s.crosses(id, ws, "/workspace")
	})
}

// makeDir makes a directory for uid 1000.
func makeDir(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 1000, 1000); err != nil {
			t.Fatal(err)
		}
	}
}
