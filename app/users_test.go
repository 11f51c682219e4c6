package app

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// Whoever commands run as has a name and a HOME that takes files, works with git
// in the workspace whoever owns that, and leaves files of his own on this machine.
func TestUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for workspaces of several users")
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git on this machine")
	}
	image := servedImage(t, `CMD ["sleep", "infinity"]`)
	gem := servedImage(t, "USER gem", `CMD ["sleep", "infinity"]`)
	shared := start(t, dataDir(t))
	check := func(t *testing.T, wall sandbox.Wall, owner int, user, image string, want int) (s *server, id, ws string) {
		s = shared.in(t)
		ws = workspace(t, owner)
		if owner != want {
			if err := os.Chmod(ws, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		id = s.opened(sandbox.Spec{Wall: wall, User: user, Image: image}, ws)
		r := s.bash(id, `id -u; name=$(whoami) && [ "$name" = "$(id -un)" ] && [ "$name" != "$(id -u)" ] && echo named
			[ -w "$HOME" ] && echo '[user]
	name = T
	email = t@example.com' >"$HOME/.gitconfig" && echo at home`)
		if text := strconv.Itoa(want) + "\nnamed\nat home"; r.Text != text {
			t.Errorf("%+v, want %q", r, text)
		}
		r = s.bash(id, `git init -q repo && cd repo && echo x >f && git add f && git commit -qm one && git log --format=%an && cd .. && git init -q . && git add repo/f && git status --short | head -n 1`)
		if r.Status != task.CallOK || !strings.HasPrefix(r.Text, "T\n") {
			t.Errorf("git: %+v", r)
		}
		for _, name := range []string{"repo", "repo/f", "repo/.git/HEAD"} {
			if got := ownerOf(t, filepath.Join(ws, name)); got != want {
				t.Errorf("%s belongs to %d on this machine, want %d", name, got, want)
			}
		}
		s.tool(id, "Write", map[string]any{"file_path": "by-tool", "content": "x"})
		if got := ownerOf(t, filepath.Join(ws, "by-tool")); got != want {
			t.Errorf("what a tool writes belongs to %d, want %d", got, want)
		}
		// A repository of somebody else's, as where the person is another user.
		foreign := filepath.Join(ws, "foreign")
		if out, err := exec.Command("sh", "-c", `git init -q "$0" && echo x >"$0/f" && chown -R 4321:4321 "$0"`, foreign).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if r := s.bash(id, "git -C foreign status --short"); r.Status != task.CallOK || r.Text != "?? f" {
			t.Errorf("git in somebody's repository: %+v", r)
		}
		return s, id, ws
	}
	const none = "0000000000000000"
	caps := func(t *testing.T, s *server, id, want string) {
		t.Helper()
		if r := s.bash(id, "grep CapEff /proc/self/status | cut -f 2"); r.Text != want {
			t.Errorf("CapEff %q, want %q", r.Text, want)
		}
	}
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		img := map[sandbox.Wall]string{sandbox.WallDocker: image}[wall]
		for _, uid := range []int{1000, 4242, 0} {
			t.Run(fmt.Sprintf("host, workspace of %d", uid), func(t *testing.T) {
				s, id, _ := check(t, wall, uid, "host", img, uid)
				caps(t, s, id, none)
			})
		}
	})
	t.Run("image", func(t *testing.T) {
		s, id, _ := check(t, sandbox.WallDocker, 1000, "image", gem, 1000)
		caps(t, s, id, none)
	})
	t.Run("image of root", func(t *testing.T) {
		s, id, _ := check(t, sandbox.WallDocker, 1000, "image", image, 0)
		caps(t, s, id, none)
	})
	t.Run("root", func(t *testing.T) {
		s, id, ws := check(t, sandbox.WallDocker, 1000, "root", image, 0)
		// CHOWN, DAC_OVERRIDE, FOWNER and FSETID, as unpacking a package takes.
		caps(t, s, id, "000000000000001b")
		r := s.bash(id, `touch given && chown 1000:1000 given && chmod 4755 given && install=/usr/local/thing && mkdir -p $install && echo x >$install/f && chown -R 33:33 $install && stat -c %u $install/f`)
		if r.Status != task.CallOK || r.Text != "33" || ownerOf(t, filepath.Join(ws, "given")) != 1000 {
			t.Errorf("as packages are unpacked: %+v", r)
		}
		if notes := strings.Join(s.card(id).Description.Notes, "\n"); !strings.Contains(notes, "commands run as root") {
			t.Errorf("the card does not show it: %s", notes)
		}
	})
}

func ownerOf(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Error(err)
		return -1
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}
