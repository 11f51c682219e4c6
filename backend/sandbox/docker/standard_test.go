package docker

import (
	"context"
	"flag"
	"os/exec"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

var wholeStandard = flag.Bool("standard", false, "make the whole standard image, which takes minutes and a gigabyte")

// The standard image holds what is said of it: see make standard-image.
func TestMakeStandard(t *testing.T) {
	if !*wholeStandard {
		t.Skip("it takes minutes; make standard-image runs it")
	}
	p := ownProvider(t)
	p.opts.Version = p.opts.Instance // an image of its own, whatever this machine has
	ref, err := p.MakeStandard(t.Context(), func(s sandbox.Step) { t.Log(s.Name, s.Detail, s.Bytes) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.RemoveImage(context.WithoutCancel(t.Context()), ref); err != nil {
			t.Error(err)
		}
	})
	const script = `set -e
chromium --version --no-sandbox; git --version; curl --version; rg --version; python3 --version; node --version
fc-list; test -d /workspace`
	said, err := exec.Command("docker", "run", "--rm", "--network", "none", ref, "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for _, want := range []string{"Chromium ", "git version", "curl ", "ripgrep ", "Python 3", "NotoSansCJK", "NotoColorEmoji"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("without %q:\n%s", want, said)
		}
	}
}
