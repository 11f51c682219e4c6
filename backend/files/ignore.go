package files

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// maxIgnoreFile bounds the ignore files that are read.
const maxIgnoreFile = 1 << 20

// ignoreFiles are the names of ignore files in a directory; rules of later
// ones go before those of earlier ones.
var ignoreFiles = []string{".gitignore", ".ignore"}

// ignores are the ignore rules in force in a directory: its own, then those of
// the directories above. A nil value ignores nothing.
type ignores struct {
	above *ignores
	dir   string // real path of the directory that the rules stand in
	rules []ignoreRule
}

// ignoreRule is one line of an ignore file, see gitignore(5).
type ignoreRule struct {
	segment  // matches the name, unless anchored
	negate   bool
	dirOnly  bool
	anchored bool // text is matched with the path below dir
}

// parseIgnore reads the rules of an ignore file.
func parseIgnore(text string) []ignoreRule {
	var rules []ignoreRule
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
			line = line[:len(line)-1]
		}
		if line == "" || line[0] == '#' {
			continue
		}
		var r ignoreRule
		if line, r.negate = strings.CutPrefix(line, "!"); line == "" {
			continue
		}
		line, r.dirOnly = strings.CutSuffix(line, "/")
		r.anchored = strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		if strings.HasPrefix(line, "**/") && !strings.Contains(line[3:], "/") {
			line, r.anchored = line[3:], false
		}
		// Braces are ordinary characters here.
		line = strings.NewReplacer(`\{`, `\{`, `\}`, `\}`, "{", `\{`, "}", `\}`).Replace(line)
		if line == "" || !doublestar.ValidatePattern(line) {
			continue
		}
		r.segment = newSegment(line)
		if r.kind == spanning {
			r.segment = segment{anyName, "*"}
		}
		rules = append(rules, r)
	}
	return rules
}

// match reports whether the entry name of the directory dir, a real path, is ignored.
func (g *ignores) match(dir, name string, isDir bool) bool {
	for ; g != nil; g = g.above {
		for i := len(g.rules) - 1; i >= 0; i-- {
			r := &g.rules[i]
			if r.dirOnly && !isDir {
				continue
			}
			var hit bool
			if !r.anchored {
				hit = r.matches(name)
			} else if rel := strings.TrimPrefix(dir[min(len(g.dir), len(dir)):]+"/"+name, "/"); r.kind == literal {
				hit = r.text == rel
			} else {
				hit = doublestar.MatchUnvalidated(r.text, rel)
			}
			if hit {
				return !r.negate
			}
		}
	}
	return false
}

// in returns the rules in force in dir, which holds the ignore files names.
func (g *ignores) in(dir string, names []string) *ignores {
	for _, name := range names {
		if rules := parseIgnore(readIgnore(filepath.Join(dir, name))); len(rules) > 0 {
			g = &ignores{above: g, dir: dir, rules: rules}
		}
	}
	return g
}

// ignoresAbove returns the rules of the repository that the real path base is
// in, as far as they stand above base, or beside it in .git/info/exclude.
func ignoresAbove(base string) *ignores {
	var dirs []string // from base up to the repository's top
	for dir := base; ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			break
		}
		if dir == "/" {
			return nil
		}
	}
	top := dirs[len(dirs)-1]
	var g *ignores
	if rules := parseIgnore(readIgnore(filepath.Join(top, ".git", "info", "exclude"))); len(rules) > 0 {
		g = &ignores{dir: top, rules: rules}
	}
	for i := len(dirs) - 1; i > 0; i-- {
		g = g.in(dirs[i], ignoreFiles)
	}
	return g
}

// readIgnore returns the text of an ignore file; one that cannot be read is empty.
func readIgnore(path string) string {
	f, err := openRegular(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(string(text), string(bom))
}
