package aio

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/files"
)

// maxTree is how many names of a tree are brought over.
const maxTree = 100_000

// How find and stat print the entries of a tree: three, or two, texts that each
// end in a NUL byte.
const (
	treeFormat   = `%y %m %s %U %G %T@\0%P\0%l\0`
	targetFormat = `%f %s %u %g %.9Y\0%n\0`
)

// tree is what a server said of the entries below a directory.
type tree struct {
	base    string
	files   map[string]execenv.FileInfo // by path below base; links as they are
	links   map[string]string           // text of the links
	targets map[string]execenv.FileInfo // what links lead to, likewise
}

func decode(s string) ([]byte, error) { return base64.StdEncoding.DecodeString(s) }

// tree reads the results "tree" and "targets" of a script that listed what is
// below base, by the path listed.
func (s *Server) tree(ctx context.Context, base, listed string, a answer) (*tree, error) {
	entries, err := s.result(ctx, a, "tree")
	if err != nil {
		return nil, err
	}
	targets, err := s.result(ctx, a, "targets")
	if err != nil {
		return nil, err
	}
	t := &tree{base: base, files: map[string]execenv.FileInfo{}, links: map[string]string{}, targets: map[string]execenv.FileInfo{}}
	texts := strings.Split(string(entries), "\x00")
	for ; len(texts) >= 3; texts = texts[3:] {
		if err := t.add(texts[0], texts[1], texts[2]); err != nil {
			return nil, err
		}
	}
	texts = strings.Split(string(targets), "\x00")
	for ; len(texts) >= 2; texts = texts[2:] {
		f, _, err := parseStat(texts[0])
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(texts[1], strings.TrimSuffix(listed, "/"))
		t.targets[strings.TrimLeft(name, "/")] = f
	}
	return t, nil
}

// add takes in one entry. Its name comes from a server that may say anything.
func (t *tree) add(stat, name, link string) error {
	field := strings.Fields(stat)
	if len(field) != 6 || !filepath.IsLocal(name) {
		return misfit("a listing", fmt.Errorf("the entry %q", clip(stat+" "+name)))
	}
	mode, err1 := strconv.ParseUint(field[1], 8, 32)
	size, err2 := strconv.ParseInt(field[2], 10, 64)
	uid, err3 := strconv.Atoi(field[3])
	gid, err4 := strconv.Atoi(field[4])
	at, err5 := parseTime(field[5])
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return misfit("a listing", err)
	}
	f := execenv.FileInfo{Kind: execenv.KindOther, Size: size, Mode: uint32(mode) & 0o7777, UID: uid, GID: gid, ModTime: at}
	switch field[0] {
	case "f":
		f.Kind = execenv.KindFile
	case "d":
		f.Kind = execenv.KindDir
	case "l":
		f = execenv.FileInfo{Kind: execenv.KindMissing, ModTime: at}
		t.links[name] = link
	}
	t.files[name] = f
	return nil
}

func (t *tree) names() []string { return slices.Sorted(maps.Keys(t.files)) }

// describe returns an entry as Stat would.
func (t *tree) describe(name string) execenv.FileInfo {
	f := t.files[name]
	full := strings.TrimSuffix(t.base, "/") + "/" + name
	if link, ok := t.links[name]; ok {
		if to, ok := t.targets[name]; ok {
			f = to
		}
		f.Symlink = link
	}
	f.Path = full
	return f
}

// mirror is a directory of this machine with the names of a tree on a server:
// files of the same size and time and without content, but for those that were
// fetched, links that stay inside, and the rules of what is ignored.
type mirror struct {
	server *Server
	dir    string // a temporary directory
	root   *os.Root
	real   string // the tree's real path there
	top    string // of the tree here: dir + real
	tree   *tree
	engine *files.Engine
}

// mirror brings the names below base over. Of .git only what says what to ignore
// comes along, unless git is set.
func (e *Env) mirror(ctx context.Context, base string, git bool) (*mirror, error) {
	prune := ` -name .git -prune`
	if git {
		prune = ""
	}
	a, err := e.ask(ctx, base, "P="+execenv.Quote(base)+`
i=$(stat -c %n -- "$P/." 2>&1) || oops "$i"
R=$(realpath -e -- "$P"; echo x); R=${R%?x}
printf 'real '; printf %s "$R" | b
t=$(stage); l=$(stage); k=$(stage); g=$(stage)
find "${R%/}/" -mindepth 1 -printf '`+treeFormat+`'`+prune+` 2>/dev/null | head -z -n `+fmt.Sprint(3*maxTree+3)+` >"$t"
find "${R%/}/" -type l -exec stat -L --printf '`+targetFormat+`' -- {} + >"$l" 2>/dev/null
find "${R%/}/" -type l -exec sh -c 'for f; do printf "%s\0" "$f"; realpath -zm -- "$f"; done' sh {} + >"$k" 2>/dev/null
keep() { [ ! -f "$1" ] || { printf %s "$1" | base64 | tr -d '\n'; printf ' '; head -c 1048576 -- "$1" | base64 | tr -d '\n'; echo; } >>"$g"; }
d=$R
while :; do
  for f in .gitignore .ignore .git/info/exclude; do keep "${d%/}/$f"; done
  [ ! -e "${d%/}/.git" ] || { printf 'git '; printf %s "${d%/}/.git" | b; }
  [ "$d" != / ] || break
  d=$(dirname -- "$d")
done
find "${R%/}/" -mindepth 2 -type f \( -name .gitignore -o -name .ignore \) -print0 2>/dev/null | xargs -0 -r sh -c 'for f; do printf %s "$f" | base64 | tr -d "\n"; printf " "; head -c 1048576 -- "$f" | base64 | tr -d "\n"; echo; done' sh >>"$g"
give tree "$t"; give targets "$l"; give links "$k"; give rules "$g"`)
	if err != nil {
		return nil, err
	}
	m, err := e.server.makeMirror(ctx, base, a)
	if err != nil {
		return nil, e.down(ctx, err)
	}
	return m, nil
}

func (s *Server) makeMirror(ctx context.Context, base string, a answer) (_ *mirror, err error) {
	m := &mirror{server: s, real: string(a.value("real"))}
	if !filepath.IsAbs(m.real) || filepath.Clean(m.real) != m.real {
		return nil, misfit("a listing", errors.New("the real path of its top"))
	}
	if m.tree, err = s.tree(ctx, base, m.real, a); err != nil {
		return nil, err
	}
	if len(m.tree.files) > maxTree {
		return nil, &execenv.PathError{Path: base, Err: execenv.ErrTooLarge,
			Detail: fmt.Sprintf("more than %d names are below it, and an AIO server's tree is brought over to be searched: narrow the path", maxTree)}
	}
	links, err := s.result(ctx, a, "links")
	if err != nil {
		return nil, err
	}
	rules, err := s.result(ctx, a, "rules")
	if err != nil {
		return nil, err
	}
	if m.dir, err = os.MkdirTemp("", "glovebox-aio-"); err != nil {
		return nil, fmt.Errorf("make a directory to search in: %w", err)
	}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	if m.dir, err = filepath.EvalSymlinks(m.dir); err != nil {
		return nil, err
	}
	if m.root, err = os.OpenRoot(m.dir); err != nil {
		return nil, err
	}
	m.top = strings.TrimSuffix(filepath.Join(m.dir, m.real), "/")
	// A name of the server leads nowhere else on this machine, by whatever link.
	m.engine = files.New(files.Options{Refuse: func(path string, _ bool) error {
		if path != m.dir && !strings.HasPrefix(path, m.dir+"/") {
			return &execenv.PathError{Path: path, Err: execenv.ErrEscape}
		}
		return nil
	}})
	if err := m.fill(); err != nil {
		return nil, fmt.Errorf("make a directory to search in: %w", err)
	}
	for _, line := range a.lines {
		if line[0] == "git" {
			if path, err := decode(line[1]); err == nil {
				_ = m.root.MkdirAll(local(string(path)), 0o700) // a mark; there already, maybe as a file
			}
		}
	}
	for line := range strings.Lines(string(rules)) {
		name, body, _ := strings.Cut(strings.TrimSpace(line), " ")
		path, err1 := decode(name)
		text, err2 := decode(body)
		if err1 != nil || err2 != nil {
			return nil, misfit("a listing", errors.New("rules that do not decode"))
		}
		m.write(string(path), bytes.NewReader(text))
	}
	m.link(string(links))
	return m, nil
}

// local returns an absolute path of the server as one below the mirror.
func local(p string) string { return strings.TrimPrefix(filepath.Clean("/"+p), "/") }

// at returns the path below the mirror of a name of the tree.
func (m *mirror) at(name string) string { return local(m.real + "/" + name) }

// fill makes the directories and the files, without content.
func (m *mirror) fill() error {
	if err := m.root.MkdirAll(cmp.Or(local(m.real), "."), 0o700); err != nil {
		return err
	}
	for _, name := range m.tree.names() {
		f := m.tree.files[name]
		var err error
		switch f.Kind {
		case execenv.KindDir:
			err = m.root.MkdirAll(m.at(name), 0o700)
		case execenv.KindFile:
			err = m.file(m.at(name), f.Size, f.ModTime)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *mirror) file(p string, size int64, at time.Time) error {
	f, err := m.root.OpenFile(p, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(min(size, 1<<40)); err != nil { // a hole, which takes no room
		return err
	}
	return m.root.Chtimes(p, at, at)
}

// write puts content into a file of the mirror that is to be read here. What
// cannot be written is not searched.
func (m *mirror) write(path string, content io.Reader) {
	p := local(path)
	if m.root.MkdirAll(filepath.Dir(p), 0o700) != nil {
		return
	}
	f, err := m.root.OpenFile(p, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = io.Copy(f, content) // what is missing is not found
}

// empty takes the size of a file away, so that its hole is not searched.
func (m *mirror) empty(name string) {
	if f, err := m.root.OpenFile(m.at(name), os.O_WRONLY|os.O_TRUNC, 0o600); err == nil {
		f.Close()
	}
}

// link makes those links that lead to somewhere in the tree.
func (m *mirror) link(pairs string) {
	texts := strings.Split(pairs, "\x00")
	for ; len(texts) >= 2; texts = texts[2:] {
		from, to := filepath.Clean(texts[0]), filepath.Clean(texts[1])
		if inside(m.real, from) && inside(m.real, to) {
			_ = m.root.Symlink(filepath.Join(m.dir, to), local(from)) // one that is there already stays
		}
	}
}

func inside(dir, p string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// fetch brings the contents of files over that can hold a match.
func (m *mirror) fetch(ctx context.Context, names []string, r execenv.GrepRequest) error {
	if len(names) == 0 {
		return nil
	}
	var list bytes.Buffer
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		full := "/" + m.at(name)
		list.WriteString(full + "\x00")
		wanted[full] = true
	}
	staged, err := m.server.stage(ctx, list.Bytes())
	if err != nil {
		return err
	}
	defer m.server.remove(ctx, staged)
	script := "L=" + execenv.Quote(staged) + "\n"
	if needles, fold := files.Needles(r); len(needles) > 0 {
		flags := "-lZF"
		if fold {
			flags += "i"
		}
		script += "n=$(stage); xargs -0 -a \"$L\" -r grep " + flags
		for _, n := range needles {
			script += " -e " + execenv.Quote(n)
		}
		script += ` -- >"$n" 2>/dev/null; cat -- "$n" >"$L"; rm -f -- "$n"` + "\n"
	}
	script += fmt.Sprintf(`s=$(xargs -0 -a "$L" -r stat -c %%s -- 2>/dev/null | awk '{s += $1} END {printf "%%.0f", s}')
[ "${s:-0}" -le %d ] || die large "its files that can match have $s bytes, and they are brought over to be searched: narrow the path or the glob"
o=$(stage); tar -cPf "$o" --null --no-recursion --hard-dereference -T "$L" 2>/dev/null
give tar "$o"`, maxGrepBytes)
	a, err := m.server.script(ctx, script)
	if err != nil {
		return silent(pathError(m.tree.base, err))
	}
	archive, err := m.server.result(ctx, a, "tar")
	if err != nil {
		return err
	}
	t := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return misfit("an archive", err)
		}
		if h.Typeflag == tar.TypeReg && wanted[h.Name] {
			m.write(h.Name, t)
		}
	}
}

// close removes the mirror.
func (m *mirror) close() {
	if m.root != nil {
		m.root.Close()
	}
	if m.dir != "" {
		os.RemoveAll(m.dir)
	}
}
