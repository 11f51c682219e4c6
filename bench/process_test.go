package bench

import (
	"bufio"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A browser's own process is part of what it uses; a server's is counted for itself.
func TestTree(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 60 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		exec.Command("kill", strconv.Itoa(child)).Run()
		cmd.Wait()
	})
	root := cmd.Process.Pid
	for _, c := range []struct {
		what string
		find func() ([]proc, error)
		want []int
	}{
		{"only", only(root), []int{root}},
		{"below", below(root), []int{child}},
		{"tree", tree(root), []int{root, child}},
	} {
		found, err := c.find()
		if err != nil {
			t.Fatal(err)
		}
		var pids []int
		for _, p := range found {
			pids = append(pids, p.pid)
			if !p.lives() {
				t.Errorf("%s: process %d does not live", c.what, p.pid)
			}
		}
		if !slices.Equal(pids, c.want) {
			t.Errorf("%s = %v, want %v", c.what, pids, c.want)
		}
	}
}
