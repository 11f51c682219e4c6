package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// Commands run in the sandbox that the screen names, as the workspace's owner,
// with no network but loopback and no capability; what they and the file tools
// make belongs to that owner on the host.
func TestCallsAreInside(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	s := start(t, data)
	eachWall(t, func(t *testing.T, wall sandbox.Wall) {
		t.Parallel()
		for _, uid := range []int{1000, 0} {
			if os.Geteuid() != 0 && uid != os.Geteuid() {
				continue // only root makes a workspace for others
			}
			t.Run(fmt.Sprint("owner ", uid), func(t *testing.T) {
				t.Parallel()
				ws := workspace(t, uid)
				s := s.in(t)
				id := s.place(wall, ws)

				out, err := glovebox("tool", "--data", data, id, "Bash", `{"command":"hostname; id -u; id -g; cat /proc/net/dev; grep Cap /proc/self/status"}`).Output()
				if err != nil {
					t.Fatalf("glovebox tool: %v\n%s", err, out)
				}
				var r httpapi.ToolResponse
				if err := json.Unmarshal(out, &r); err != nil {
					t.Fatalf("glovebox tool printed %q: %v", out, err)
				}
				lines := strings.Split(r.Text, "\n")
				v := s.show(id)
				if want := []string{v.ShortID, fmt.Sprint(uid), fmt.Sprint(uid)}; v.ShortID == "" || len(lines) < 3 || strings.Join(lines[:3], " ") != strings.Join(want, " ") {
					t.Errorf("hostname, uid and gid are %q, want %q", lines[:min(3, len(lines))], want)
				}
				if r.Where.SandboxID != v.ShortID || r.Where.Wall != string(wall) {
					t.Errorf("the result says that it ran in %+v, want %s of %s", r.Where, v.ShortID, wall)
				}
				var links []string
				for _, m := range regexp.MustCompile(`(?m)^\s*(\S+):\s+\d`).FindAllStringSubmatch(r.Text, -1) {
					if !strings.HasPrefix(m[1], "Cap") {
						links = append(links, m[1])
					}
				}
				if strings.Join(links, " ") != "lo" {
					t.Errorf("network interfaces %q, want only lo", links)
				}
				for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
					if !strings.Contains(r.Text, set+":\t0000000000000000") {
						t.Errorf("%s is not empty in:\n%s", set, r.Text)
					}
				}

				if got := s.bash(id, "mkdir -p by/bash; echo x > by/bash/file"); got.Status != task.CallOK {
					t.Errorf("Bash: %s %q", got.Status, got.Text)
				}
				if got := s.tool(id, "Write", map[string]any{"file_path": "by/write/file", "content": "x\n"}); got.Status != task.CallOK {
					t.Errorf("Write: %s %q", got.Status, got.Text)
				}
				for _, path := range []string{"by", "by/bash", "by/bash/file", "by/write", "by/write/file"} {
					var st syscall.Stat_t
					if err := syscall.Stat(filepath.Join(ws, path), &st); err != nil {
						t.Errorf("%s: %v", path, err)
					} else if int(st.Uid) != uid || int(st.Gid) != uid {
						t.Errorf("%s belongs to %d:%d on the host, want %d:%d", path, st.Uid, st.Gid, uid, uid)
					}
				}
			})
		}
	})
}

// place opens a session without a turn.
func (s *server) place(wall sandbox.Wall, ws string) string {
	s.t.Helper()
	return s.open(httpapi.OpenRequest{Title: s.t.Name(), Workspace: ws, Spec: sandbox.Spec{Wall: wall}})
}
