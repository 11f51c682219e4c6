package sandbox

import (
	"os/exec"
	"strings"
	"testing"
)

func TestShellLine(t *testing.T) {
	argv := []string{
		"printf", `%s\n`, "plain", "", "two words", "it's", `"double"`, "$HOME `id` $(id)", "a;b&c|d>e<f", "*?[x]~", "#no", "back\\slash", "tab\tand\nline", "日本語", "-x", "!!", "{a,b}", "\x01",
	}
	line := ShellLine(argv)
	out, err := exec.Command("/bin/sh", "-c", line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if got, want := string(out), strings.Join(argv[2:], "\n")+"\n"; got != want {
		t.Errorf("a shell reads %q, want %q", got, want)
	}
	if got := ShellLine([]string{"docker", "-H", "unix:///run/user/1000/docker.sock", "--user", "0:0"}); strings.Contains(got, "'") {
		t.Errorf("quoted without need: %s", got)
	}
}
