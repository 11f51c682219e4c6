//go:build linux

package docker

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func TestBootstrapDebian_cancelled(t *testing.T) {
	if _, err := exec.LookPath("mmdebstrap"); err != nil { // it is needed where no registry answers alone
		if strings.Contains(os.Getenv("GLOVEBOX_TEST_REQUIRE"), "mmdebstrap") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	tree, err := bootstrapDebian(ctx, func(sandbox.Step) { cancel() })
	if err != nil {
		t.Fatal(err)
	}
	made := tree.(*bootstrapped)
	n, err := io.Copy(io.Discard, tree)
	if !errors.Is(err, context.Canceled) || n != 0 {
		t.Errorf("%d bytes of a tree, %v", n, err)
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	await(t, "the end of its processes", func() bool {
		return errors.Is(unix.Kill(-made.cmd.Process.Pid, 0), unix.ESRCH)
	})
}

func TestBootstrapDebian_failsWithItsLastWords(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho half a tree\necho 'E: the mirror is not there' >&2\nexit 25\n"
	if err := os.WriteFile(dir+"/mmdebstrap", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	t.Setenv("TMPDIR", t.TempDir())
	var said []string
	tree, err := bootstrapDebian(t.Context(), func(s sandbox.Step) { said = append(said, s.Detail) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, tree); err == nil || err.Error() != "mmdebstrap: exit status 25: E: the mirror is not there" {
		t.Errorf("the tree's end: %v", err)
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
	if len(said) != 1 || said[0] != "E: the mirror is not there" {
		t.Errorf("steps %q", said)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := bootstrapDebian(t.Context(), nil); err == nil {
		t.Error("without mmdebstrap")
	}
}

// An engine that breaks off leaves its client reading: that is given half a tree, and
// never the end of one.
func TestBootstrapDebian_closedWhileItIsRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/mmdebstrap", []byte("#!/bin/sh\necho half a tree\nexec sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	t.Setenv("TMPDIR", t.TempDir())
	tree, err := bootstrapDebian(t.Context(), func(sandbox.Step) {})
	if err != nil {
		t.Fatal(err)
	}
	half := make([]byte, len("half a tree\n"))
	if _, err := io.ReadFull(tree, half); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := tree.Read(make([]byte, 10))
		read <- err
	}()
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
	if err := <-read; err == nil || errors.Is(err, io.EOF) {
		t.Errorf("who still reads is given %v", err)
	}
	if entries, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
