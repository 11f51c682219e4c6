package envtest

import (
	"crypto/rand"
	"sync"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// testOnce: a call id that is known returns its outcome, also while it runs.
func testOnce(s *suite) {
	id := func() execenv.Call { return execenv.Call{ID: "envtest-" + rand.Text()} }

	run := execenv.Command{Call: id(), Argv: []string{"sh", "-c", "echo x >>runs; cat runs; exit 5"}, Dir: s.dir}
	first := s.run(run, nil)
	again := s.run(run, nil)
	if diff := cmp.Diff(first, again, cmpopts.EquateEmpty()); diff != "" || first.ExitCode != 5 {
		s.Errorf("the second outcome differs: %s", diff)
	}
	s.has("runs", "x\n")

	together := execenv.Command{Call: id(), Argv: []string{"sh", "-c", "echo y >>joined; until [ -e go ]; do sleep 0.05; done; echo end"}, Dir: s.dir}
	var wg sync.WaitGroup
	outcomes := make([]execenv.Outcome, 3)
	for i := range outcomes {
		wg.Go(func() {
			o, err := s.env.Run(s.ctx(), together, nil)
			if err != nil {
				s.Error(err)
			}
			outcomes[i] = o
		})
	}
	s.do("until [ -s joined ]; do sleep 0.05; done; touch go")
	wg.Wait()
	for _, o := range outcomes {
		if text(o.Stdout) != "end\n" {
			s.Errorf("joined: %+v", o)
		}
	}
	s.has("joined", "y\n")

	write := execenv.WriteRequest{Call: id(), Path: s.path("made"), Data: []byte("1"), Mode: execenv.WriteExclusive}
	one, err := s.env.WriteFile(s.ctx(), write)
	s.must(err)
	two, err := s.env.WriteFile(s.ctx(), write)
	s.must(err)
	if !one.Created || !two.Created || one.Hash != two.Hash {
		s.Errorf("WriteFile() = %+v, then %+v", one, two)
	}
	edit := execenv.EditRequest{Call: id(), Path: s.path("made"), Old: "1", New: "1+1"}
	_, err = s.env.EditFile(s.ctx(), edit)
	s.must(err)
	_, err = s.env.EditFile(s.ctx(), edit)
	s.must(err)
	s.has("made", "1+1")
	remove := execenv.ChangeRequest{Call: id(), Kind: execenv.ChangeRemove, Path: s.path("made")}
	s.must(s.env.Change(s.ctx(), remove))
	s.must(s.env.Change(s.ctx(), remove))

	// What began in another boot, and is not known here, is never done again.
	taken := run
	taken.Call = execenv.Call{ID: "envtest-" + rand.Text(), Boot: "another boot"}
	_, err = s.env.Run(s.ctx(), taken, nil)
	s.is("a call of another boot", err, execenv.ErrOutcomeUnknown)
	write.Call, write.Path = taken.Call, s.path("never")
	_, err = s.env.WriteFile(s.ctx(), write)
	s.is("a write of another boot", err, execenv.ErrOutcomeUnknown)
	_, err = s.env.Stat(s.ctx(), s.path("never"))
	s.is("its file", err, execenv.ErrNotFound)
	s.has("runs", "x\n")
}
