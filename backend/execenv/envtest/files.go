package envtest

import (
	"fmt"
	"path"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

func (s *suite) read(r execenv.ReadRequest) execenv.ReadResult {
	s.Helper()
	r.Path = s.path(r.Path)
	res, err := s.env.ReadFile(s.ctx(), r)
	s.must(err)
	return res
}

func testRead(s *suite) {
	s.put("crlf", "\xef\xbb\xbfone\r\ntwo\r\n\r\nfour")
	s.put("empty", "")
	s.put("bad", "a\xffb\n")
	s.put("bin", "a\x00b")
	s.put("p.png", "\x89PNG\r\n\x1a\n\x00\x00")
	s.put("p.pdf", "%PDF-1.7\n")

	r := s.read(execenv.ReadRequest{Path: "crlf", Lines: 10})
	if got := fmt.Sprint(r.Lines); got != "[{1 one 0} {2 two 0} {3  0} {4 four 0}]" || r.TotalLines != 4 || !r.BOM {
		s.Errorf("lines %s of %d, bom %v", got, r.TotalLines, r.BOM)
	}
	if r.Hash != hash("\xef\xbb\xbfone\r\ntwo\r\n\r\nfour") || r.Info.Size != 19 || r.Info.Kind != execenv.KindFile || r.Info.ModTime.IsZero() {
		s.Errorf("hash %s, info %+v", r.Hash, r.Info)
	}
	r = s.read(execenv.ReadRequest{Path: "crlf", StartLine: 2, Lines: 1})
	if got := fmt.Sprint(r.Lines); got != "[{2 two 0}]" || r.TotalLines != 4 {
		s.Errorf("line 2: %s of %d", got, r.TotalLines)
	}
	if r = s.read(execenv.ReadRequest{Path: "crlf", StartLine: 5, Lines: 1}); len(r.Lines) != 0 || r.TotalLines != 4 {
		s.Errorf("past the end: %v of %d", r.Lines, r.TotalLines)
	}
	if r = s.read(execenv.ReadRequest{Path: "empty", Lines: 1}); len(r.Lines) != 0 || r.Info.Size != 0 || r.Hash != hash("") {
		s.Errorf("empty: %+v", r)
	}
	if r = s.read(execenv.ReadRequest{Path: "bad", Lines: 1}); !r.Repaired || r.Lines[0].Text != "a\uFFFDb" {
		s.Errorf("bad bytes: %+v", r)
	}
	if r = s.read(execenv.ReadRequest{Path: "bin", Lines: 1}); !r.Binary || len(r.Lines) != 0 {
		s.Errorf("binary: %+v", r)
	}
	if r = s.read(execenv.ReadRequest{Path: "p.png", Lines: 1}); r.MediaType != "image/png" || len(r.Data) != 10 {
		s.Errorf("image: %+v", r)
	}
	if r = s.read(execenv.ReadRequest{Path: "p.pdf", Lines: 1}); r.MediaType != "application/pdf" || !r.Binary {
		s.Errorf("pdf: %+v", r)
	}
	if r = s.read(execenv.ReadRequest{Path: "crlf", Offset: 3, Length: 5}); string(r.Data) != "one\r\n" {
		s.Errorf("bytes: %q", r.Data)
	}
	s.do("mkdir d; mkfifo pipe")
	for name, want := range map[string]error{
		"gone": execenv.ErrNotFound, "d": execenv.ErrIsDirectory, "empty/x": execenv.ErrNotDirectory, "pipe": execenv.ErrNotRegular,
	} {
		_, err := s.env.ReadFile(s.ctx(), execenv.ReadRequest{Path: s.path(name), Lines: 1})
		s.is("read "+name, err, want)
	}
	_, err := s.env.ReadFile(s.ctx(), execenv.ReadRequest{Path: "/dev/zero", Lines: 1})
	s.is("read a device", err, execenv.ErrNotRegular)
}

func testReadLarge(s *suite) {
	s.do("head -c 10485760 /dev/zero | tr '\\0' a >line; truncate -s 2G sparse; seq 300000 >many")
	r := s.read(execenv.ReadRequest{Path: "line", Lines: 2000})
	if l := r.Lines[0]; len(l.Text) != 2000 || l.Cut != 10485760-2000 {
		s.Errorf("one long line: %d bytes, %d cut", len(l.Text), l.Cut)
	}
	if r = s.read(execenv.ReadRequest{Path: "sparse", Lines: 2000}); !r.Binary || r.Info.Size != 2<<30 || r.Hash != "" {
		s.Errorf("sparse: binary %v, hash %q, %+v", r.Binary, r.Hash, r.Info)
	}
	r = s.read(execenv.ReadRequest{Path: "many", StartLine: 299_990, Lines: 2000})
	if len(r.Lines) != 11 || r.Lines[10].Text != "300000" || r.TotalLines != 300_000 {
		s.Errorf("the end of many lines: %v of %d", r.Lines, r.TotalLines)
	}
	s.put("wide", strings.Repeat("é", 3000))
	r = s.read(execenv.ReadRequest{Path: "wide", Lines: 1, MaxLine: 1001})
	if l := r.Lines[0]; len(l.Text) != 1000 || !utf8.ValidString(l.Text) || l.Cut != 5000 {
		s.Errorf("a cut in a character: %d bytes, %d cut", len(l.Text), l.Cut)
	}
}

func testWrite(s *suite) {
	write := func(name, data string, mode execenv.WriteMode, expected string) (execenv.WriteResult, error) {
		return s.env.WriteFile(s.ctx(), execenv.WriteRequest{Path: s.path(name), Data: []byte(data), Mode: mode, Expected: expected, Within: []string{s.dir}})
	}
	r, err := write("a/b/new", "one", execenv.WriteOverwrite, "")
	s.must(err)
	if !r.Created || r.InPlace || r.Hash != hash("one") || r.Info.Size != 3 || r.Info.Mode&0o600 != 0o600 || r.Info.Mode&0o133 != 0 {
		s.Errorf("new: %+v", r)
	}
	_, err = write("a/b/new", "two", execenv.WriteExclusive, "")
	s.is("exclusive", err, execenv.ErrExists)
	_, err = write("a/b/new", "two", execenv.WriteExpected, hash("other"))
	s.is("expected", err, execenv.ErrChanged)
	s.has("a/b/new", "one")
	r, err = write("a/b/new", "two", execenv.WriteExpected, hash("one"))
	s.must(err)
	if r.Created || string(r.Before) != "one" || r.BeforeOmitted {
		s.Errorf("replaced: %+v", r)
	}
	s.has("a/b/new", "two")
	_, err = write("a/b", "x", execenv.WriteOverwrite, "")
	s.is("a directory", err, execenv.ErrIsDirectory)
	_, err = write("a/b/new/x", "x", execenv.WriteOverwrite, "")
	s.is("below a file", err, execenv.ErrNotDirectory)
	// A change that keeps size and time is seen, a touch is none.
	s.do("touch -r a/b/new t; printf owt >a/b/new; touch -r t a/b/new")
	_, err = write("a/b/new", "x", execenv.WriteExpected, hash("two"))
	s.is("changed without a trace", err, execenv.ErrChanged)
	s.do("touch a/b/new")
	_, err = write("a/b/new", "three", execenv.WriteExpected, hash("owt"))
	s.must(err)
	if got := s.do("cd a/b; ls -A"); got != "new\n" {
		s.Errorf("left in the directory: %q", got)
	}
	// Commands see what was written, by the user that they run as.
	if got := s.do("cat a/b/new; echo; echo more >>a/b/new && echo ok"); got != "three\nok\n" {
		s.Errorf("a command sees %q", got)
	}
}

// testKept: mode and links survive a write.
func testKept(s *suite) {
	s.do("echo '#!/bin/sh' >run.sh; echo 'echo old' >>run.sh; chmod 755 run.sh; echo k >key; chmod 600 key; echo old >real.txt; ln -s real.txt link.txt; ln -s $PWD/real.txt abs.txt; ln -s made.txt dangling")
	before := s.do("ls -ln run.sh key real.txt | awk '{print $1, $3, $4}'")
	_, err := s.env.EditFile(s.ctx(), execenv.EditRequest{Path: s.path("run.sh"), Old: "old", New: "new", Within: []string{s.dir}})
	s.must(err)
	if got := s.do("./run.sh"); got != "new\n" {
		s.Errorf("the edited program printed %q", got)
	}
	for _, name := range []string{"key", "link.txt", "abs.txt", "dangling"} {
		_, err := s.env.WriteFile(s.ctx(), execenv.WriteRequest{Path: s.path(name), Data: []byte(name), Within: []string{s.dir}})
		s.must(err)
	}
	if after := s.do("ls -ln run.sh key real.txt | awk '{print $1, $3, $4}'"); after != before {
		s.Errorf("modes and owners were\n%sand are\n%s", before, after)
	}
	if got := s.do("readlink link.txt; readlink dangling"); got != "real.txt\nmade.txt\n" {
		s.Errorf("links are %q", got)
	}
	s.has("real.txt", "abs.txt")
	s.has("made.txt", "dangling")
	if got := s.do("ls -A | sort | tr '\\n' ' '"); got != "abs.txt dangling key link.txt made.txt real.txt run.sh " {
		s.Errorf("left in the directory: %s", got)
	}
}

func testEdit(s *suite) {
	edit := func(name, old, new string, all bool) (execenv.EditResult, error) {
		return s.env.EditFile(s.ctx(), execenv.EditRequest{Path: s.path(name), Old: old, New: new, ReplaceAll: all, Within: []string{s.dir}})
	}
	s.put("crlf", "alpha\r\nbeta\r\ngamma\r\n")
	r, err := edit("crlf", "alpha\nbeta", "ALPHA\nBETA\nNEW", false)
	s.must(err)
	s.has("crlf", "ALPHA\r\nBETA\r\nNEW\r\ngamma\r\n")
	if r.Replaced != 1 || r.FirstLine != 1 || string(r.Before) != "alpha\r\nbeta\r\ngamma\r\n" || string(r.After) != s.get("crlf") || r.Hash != hash(string(r.After)) {
		s.Errorf("EditFile() = %+v", r)
	}
	s.put("bom", "\xef\xbb\xbfhello\nтест é\n")
	_, err = edit("bom", "hello", "hello2", false)
	s.must(err)
	s.has("bom", "\xef\xbb\xbfhello2\nтест é\n")
	for _, literal := range []string{"$&", "$1", "${HOME}", `\1`, "&", `\n`, "`id`", "$(touch pwned)", `'"`, "%s"} {
		s.put("lit", "A X B X C")
		_, err = edit("lit", "X", literal, true)
		s.must(err)
		s.has("lit", "A "+literal+" B "+literal+" C")
	}
	s.put("twice", "foo\nfoo\n")
	s.put("bin", "\x00foo")
	for _, tt := range []struct {
		name, old, new string
		want           error
	}{
		{"twice", "foo", "bar", execenv.ErrAmbiguous},
		{"twice", "", "bar", execenv.ErrInvalid},
		{"twice", "nothing", "bar", execenv.ErrNoMatch},
		{"twice", "foo", "foo", execenv.ErrNoChange},
		{"gone", "foo", "bar", execenv.ErrNotFound},
		{"no/dir/gone", "foo", "bar", execenv.ErrNotFound},
		{"bin", "foo", "bar", execenv.ErrBinary},
	} {
		_, err := edit(tt.name, tt.old, tt.new, false)
		s.is("edit "+tt.name, err, tt.want)
	}
	s.has("twice", "foo\nfoo\n")
	if got := s.do("ls -A | sort | tr '\\n' ' '"); got != "bin bom crlf lit twice " {
		s.Errorf("left in the directory: %s", got)
	}
}

// testParallel: edits at once all land, also through a link.
func testParallel(s *suite) {
	const n = 12
	var content strings.Builder
	for i := range n {
		fmt.Fprintf(&content, "line <%d>\n", i)
	}
	s.put("f", content.String())
	s.do("ln -s f link")
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			name := []string{"f", "link"}[i%2]
			_, err := s.env.EditFile(s.ctx(), execenv.EditRequest{Path: s.path(name), Old: fmt.Sprintf("<%d>", i), New: fmt.Sprintf("[%d]", i)})
			if err != nil {
				s.Error(err)
			}
		})
	}
	wg.Wait()
	s.has("f", strings.NewReplacer("<", "[", ">", "]").Replace(content.String()))
}

func testList(s *suite) {
	s.do("mkdir -p d/sub; printf four >d/f; ln -s f d/link; ln -s nowhere d/dangling; mkfifo d/pipe; chmod 640 d/f")
	l, err := s.env.List(s.ctx(), s.path("d"))
	s.must(err)
	var got []string
	for _, f := range l.Entries {
		got = append(got, fmt.Sprintf("%s:%s:%s", path.Base(f.Path), f.Kind, f.Symlink))
	}
	if list := strings.Join(got, " "); list != "dangling:missing:nowhere f:file: link:file:f pipe:other: sub:dir:" || l.Truncated {
		s.Errorf("List() = %s", list)
	}
	f, err := s.env.Stat(s.ctx(), s.path("d/link"))
	s.must(err)
	if f.Size != 4 || f.Mode != 0o640 || f.Symlink != "f" || f.Path != s.path("d/link") {
		s.Errorf("Stat() = %+v", f)
	}
	_, err = s.env.List(s.ctx(), s.path("d/f"))
	s.is("list a file", err, execenv.ErrNotDirectory)
	_, err = s.env.List(s.ctx(), s.path("gone"))
	s.is("list nothing", err, execenv.ErrNotFound)
	_, err = s.env.Stat(s.ctx(), s.path("gone"))
	s.is("stat nothing", err, execenv.ErrNotFound)
}

func testChange(s *suite) {
	s.do("echo x >f; mkdir d; echo g >d/g; ln -s f link")
	for _, tt := range []struct {
		kind     execenv.ChangeKind
		path, to string
		want     error
	}{
		{execenv.ChangeMkdir, "a/b/c", "", nil},
		{execenv.ChangeMkdir, "a/b/c", "", nil},
		{execenv.ChangeMkdir, "f", "", execenv.ErrExists},
		{execenv.ChangeRemove, "d", "", execenv.ErrInvalid},
		{execenv.ChangeRemove, "link", "", nil},
		{execenv.ChangeRemove, "gone", "", execenv.ErrNotFound},
		{execenv.ChangeRename, "f", "a/moved", nil},
		{execenv.ChangeRename, "gone", "x", execenv.ErrNotFound},
		{execenv.ChangeRemove, "a/b/c", "", nil},
	} {
		r := execenv.ChangeRequest{Kind: tt.kind, Path: s.path(tt.path), Within: []string{s.dir}}
		if tt.to != "" {
			r.To = s.path(tt.to)
		}
		s.is(fmt.Sprintf("%s %s", tt.kind, tt.path), s.env.Change(s.ctx(), r), tt.want)
	}
	if got := s.do("find . | sort | tr '\\n' ' '"); got != ". ./a ./a/b ./a/moved ./d ./d/g " {
		s.Errorf("afterwards: %s", got)
	}
}
