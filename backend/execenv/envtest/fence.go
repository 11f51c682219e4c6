package envtest

import (
	"context"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// testFence: no write leaves its fence by a link, whatever kind of link.
func testFence(s *suite) {
	s.do(`mkdir in out in/real; echo safe >out/victim; echo x >in/real/f
		ln -s "$PWD/out/victim" in/notes.md; ln -s ../out in/sub; ln -s "$PWD/out/new" in/draft
		ln -s chain2 in/chain; ln -s sub/victim in/chain2; ln -s real in/rel; ln -s "$PWD/in/real" in/abs; ln -s made in/dangling`)
	within := []string{s.path("in")}
	for _, name := range []string{"notes.md", "sub/victim", "sub/a/new", "draft", "chain", "../out/victim", "../new", "sub/../new"} {
		for _, mode := range []execenv.WriteMode{execenv.WriteOverwrite, execenv.WriteExclusive} {
			_, err := s.env.WriteFile(s.ctx(), execenv.WriteRequest{Path: s.path("in/" + name), Data: []byte("pwned"), Mode: mode, Within: within})
			s.is("write "+name, err, execenv.ErrEscape)
		}
		_, err := s.env.EditFile(s.ctx(), execenv.EditRequest{Path: s.path("in/" + name), Old: "safe", New: "pwned", Within: within})
		s.is("edit "+name, err, execenv.ErrEscape)
	}
	_, err := s.env.WriteFile(s.ctx(), execenv.WriteRequest{Path: "/tmp/envtest-escape", Data: []byte("pwned"), Within: within})
	s.is("an absolute path", err, execenv.ErrEscape)
	_, err = s.env.WriteFile(s.ctx(), execenv.WriteRequest{Path: s.path("in/notes.md"), Within: within})
	if err == nil || !strings.Contains(err.Error(), "in/notes.md") || !strings.Contains(err.Error(), "out/victim") {
		s.Errorf("the error does not name link and target: %v", err)
	}
	for _, c := range []execenv.ChangeRequest{
		{Kind: execenv.ChangeRemove, Path: s.path("in/sub/victim")},
		{Kind: execenv.ChangeMkdir, Path: s.path("in/sub/dir")},
		{Kind: execenv.ChangeRename, Path: s.path("in/sub/victim"), To: s.path("in/mine")},
		{Kind: execenv.ChangeRename, Path: s.path("in/real/f"), To: s.path("in/sub/f")},
	} {
		c.Within = within
		s.is(string(c.Kind), s.env.Change(s.ctx(), c), execenv.ErrEscape)
	}
	if got := s.do("ls -A out; cat out/victim"); got != "victim\nsafe\n" {
		s.Errorf("outside: %q", got)
	}
	for _, name := range []string{"rel/f", "abs/f", "abs/new", "dangling"} {
		_, err := s.env.WriteFile(s.ctx(), execenv.WriteRequest{Path: s.path("in/" + name), Data: []byte(name), Within: within})
		s.is("write "+name, err, nil)
		s.has("in/"+name, name)
	}
}

// testSwap: a link that is swapped in between check and write leads nowhere.
func testSwap(s *suite) {
	s.do("mkdir -p in/dir out/dir; echo safe >out/victim; echo safe >out/dir/f; echo safe >in/dir/f")
	ctx, cancel := context.WithCancel(s.ctx())
	defer cancel()
	swapping := make(chan struct{})
	swapped := make(chan error, 1) // one result
	go func() {
		_, err := s.env.Run(ctx, execenv.Command{Dir: s.path("in"), Argv: []string{"sh", "-c", `
			echo swapping
			while :; do
				ln -s ../out/victim f; rm -f f; echo safe >f; rm -f f
				mv dir away; ln -s ../out/dir dir; rm -f dir; mv away dir
			done 2>/dev/null`}}, func(execenv.Chunk) {
			select {
			case <-swapping:
			default:
				close(swapping)
			}
		})
		swapped <- err
	}()
	select {
	case <-swapping:
	case err := <-swapped:
		s.Fatalf("the swapping ended: %v", err)
	}
	within := []string{s.path("in")}
	for i := range 1000 {
		name := s.path([]string{"in/f", "in/dir/f"}[i%2])
		if i%4 < 2 {
			_, _ = s.env.WriteFile(s.ctx(), execenv.WriteRequest{Path: name, Data: []byte("pwned"), Within: within})
		} else {
			_, _ = s.env.EditFile(s.ctx(), execenv.EditRequest{Path: name, Old: "safe", New: "pwned", Within: within})
		}
	}
	cancel()
	if err := <-swapped; err != nil {
		s.Error(err)
	}
	if got := s.do("cd out; find . | sort | tr '\\n' ' '; cat victim dir/f"); got != ". ./dir ./dir/f ./victim safe\nsafe\n" {
		s.Errorf("outside: %q", got)
	}
}
