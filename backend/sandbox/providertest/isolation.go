package providertest

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// testIsolation looks out of a sandbox whose workspace belongs to uid.
func testIsolation(t *testing.T, f *fixture, uid int) {
	if f.OneUser && uid != os.Getuid() {
		t.Skip("this wall serves only the user who runs it")
	}
	dir := f.workspace(t, uid)
	h, err := f.provider.Allocate(t.Context(), f.released("root-1"), f.Spec(dir))
	if err != nil {
		t.Fatalf("Allocate = %v", err)
	}
	equal := func(name, script, want string) {
		t.Run(name, func(t *testing.T) {
			if got := f.must(t, h, script); got != want {
				t.Errorf("%s = %q, want %q", script, got, want)
			}
		})
	}
	refused := func(name, script string) {
		t.Run(name, func(t *testing.T) {
			if got, code := f.sh(t, h, script); code == 0 {
				t.Errorf("%s works: %s", script, got)
			}
		})
	}
	equal("commands run as the workspace's owner", "id -u; id -g", strconv.Itoa(uid)+"\n"+strconv.Itoa(uid))
	equal("the loopback is the only interface", `grep : /proc/net/dev | sed 's/:.*//; s/ //g'`, "lo")
	equal("no capability", "grep CapEff /proc/self/status | tr -d '[:space:]'", "CapEff:0000000000000000")
	equal("no new privileges", "grep NoNewPrivs /proc/self/status | tr -d '[:space:]'", "NoNewPrivs:1")
	equal("HOME is writable", `cd "$HOME" && echo x > f && cat f`, "x")
	t.Run("the user has a name", func(t *testing.T) {
		name := f.must(t, h, "id -un")
		if _, err := strconv.Atoi(name); err == nil || name == "" {
			t.Errorf("id -un = %q", name)
		}
	})
	// The value is written back as it was, in case that the wall leaks.
	refused("the guest's directory is closed", `f=$(ls -A /run/glovebox) && [ -n "$f" ]`)
	refused("the guest's journal and socket are out of reach", `ls /run/glovebox/box/* /run/glovebox/state/*`)
	t.Run("the guest cannot be made the first to die of memory", func(t *testing.T) {
		// Tried without a pause, while the guest starts commands: at no moment of a
		// start may the guest's files in /proc be those of a command's user.
		f.must(t, h, `cd "$HOME" && (
			until [ -e stop ]; do
				if echo 900 > /proc/1/oom_score_adj; then touch raised; break; fi
			done; touch stopped) >/dev/null 2>&1 &`)
		for range 50 {
			f.must(t, h, "true")
		}
		if got := f.must(t, h, `cd "$HOME" && touch stop && until [ -e stopped ]; do :; done; ls raised 2>/dev/null; cat /proc/1/oom_score_adj`); got != "0" {
			t.Errorf("after 50 commands: %q, want an oom_score_adj of 0", got)
		}
	})
	refused("the files of the guest's process cannot be read", `cat /proc/1/environ /proc/1/maps || ls -l /proc/1/fd/`)
	refused("kernel settings are read-only", `v=$(cat /proc/sys/kernel/core_pattern) && printf %s "$v" > /proc/sys/kernel/core_pattern`)
	refused("no engine socket", "ls /var/run/docker.sock || ls /run/docker.sock")
	refused("our data is not there", "ls "+f.dataDir)
	refused("no mounting", "mount -t tmpfs none /tmp")
	for _, target := range []string{"-1", "1", "$PPID"} {
		t.Run("survives kill -9 "+target, func(t *testing.T) {
			f.sh(t, h, "kill -9 "+target)
			if got := f.must(t, h, "echo alive"); got != "alive" {
				t.Errorf("after kill -9 %s: %q", target, got)
			}
		})
	}
	t.Run("files belong to the workspace's owner", func(t *testing.T) {
		f.must(t, h, "mkdir -p sub && echo hi > sub/new")
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(dir, "sub", "new"), &st); err != nil {
			t.Fatal(err)
		}
		if int(st.Uid) != uid || int(st.Gid) != uid {
			t.Errorf("sub/new belongs to %d:%d, want %d:%d", st.Uid, st.Gid, uid, uid)
		}
	})
}

// oddNames are legal names that string-built mounts break on.
var oddNames = []string{"a b", "a:b", "a,b", "工作 ü", `q"x'y`, "$HOME", "line\\n", "-v"}

func testMounts(t *testing.T, f *fixture) {
	dir := f.workspace(t, os.Getuid())
	odd := "work: space, é"
	if f.NoPath != nil && f.NoPath(odd) {
		odd = "work: space é"
	}
	workspace := filepath.Join(dir, odd)
	readable := filepath.Join(dir, "ro")
	for _, d := range []string{workspace, readable, filepath.Join(workspace, "inner")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(workspace, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(readable, "f"), []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := f.Spec(link + "/") // through a link, with a trailing slash
	spec.Mounts = []sandbox.Mount{
		{Source: link + "/", Target: "/workspace"}, // the workspace once more, by hand
		{Source: readable, Target: "/workspace/inner", Mode: sandbox.ReadOnly},
		{Source: readable, Target: "/skills", Mode: sandbox.ReadOnly},
	}
	oddNames := slices.Clone(oddNames)
	if f.NoPath != nil {
		oddNames = slices.DeleteFunc(oddNames, f.NoPath)
	}
	for i, name := range oddNames {
		source := filepath.Join(dir, name)
		if err := os.Mkdir(source, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(source, "in"), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: source, Target: "/odd/" + strconv.Itoa(i)})
	}
	h, err := f.provider.Allocate(t.Context(), f.released("root-1"), spec)
	if err != nil {
		t.Fatalf("Allocate = %v", err)
	}
	for i, name := range oddNames {
		at := "/odd/" + strconv.Itoa(i)
		if got := f.must(t, h, "cat "+at+"/in && echo back > "+at+"/out"); got != name {
			t.Errorf("%q inside = %q", name, got)
		}
		if body, err := os.ReadFile(filepath.Join(dir, name, "out")); err != nil || strings.TrimSpace(string(body)) != "back" {
			t.Errorf("%q outside = %q, %v", name, body, err)
		}
	}
	f.must(t, h, "echo here > f")
	if body, err := os.ReadFile(filepath.Join(workspace, "f")); err != nil || string(body) != "here\n" {
		t.Errorf("the workspace has %q, %v", body, err)
	}
	for _, at := range []string{"/skills", "/workspace/inner"} {
		if got := f.must(t, h, "cat "+at+"/f"); got != "outside" {
			t.Errorf("%s/f = %q", at, got)
		}
		if got, code := f.sh(t, h, "echo x > "+at+"/new"); code == 0 {
			t.Errorf("a read-only mount at %s was written to: %s", at, got)
		}
	}
}
