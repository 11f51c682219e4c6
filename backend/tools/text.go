package tools

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// clean makes any string storable as JSON.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// relative shows a path as the workspace sees it: relative inside, absolute
// outside.
func relative(workdir, p string) string {
	if p == workdir {
		return "."
	}
	if workdir == "/" {
		return p
	}
	if rest, ok := strings.CutPrefix(p, path.Clean(workdir)+"/"); ok {
		return rest
	}
	return p
}

// count writes a number with its noun: "1 line", "1,234 lines".
func count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(int64(n)) + " " + noun + "s"
}

func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// elide returns what was kept of a stream as valid UTF-8 of at most limit
// characters and a note: its beginning and its end when that is not all of it.
// cut is how many bytes of the stream are not shown.
func elide(c execenv.Captured, limit int) (text string, cut int64) {
	head, tail := c.Head, c.Tail
	if c.Dropped() <= 0 {
		whole := string(c.Head) + string(c.Tail)
		if utf8.RuneCountInString(whole) <= limit {
			return clean(whole), 0
		}
		head, tail = []byte(whole), []byte(whole)
	}
	first := firstRunes(head, limit/2)
	last := lastRunes(tail, limit/2)
	cut = c.Total - int64(len(first)) - int64(len(last))
	note := fmt.Sprintf("\n[… %s of %s cut …]\n", count(cut, "byte"), thousands(c.Total))
	return clean(string(first)) + note + clean(string(last)), cut
}

// firstRunes returns at most n characters of the beginning of b, without a
// character that b itself cuts.
func firstRunes(b []byte, n int) []byte {
	i := 0
	for ; n > 0 && i < len(b) && utf8.FullRune(b[i:]); n-- {
		_, size := utf8.DecodeRune(b[i:])
		i += size
	}
	return b[:i]
}

// lastRunes returns at most n characters of the end of b, without a character
// that b itself cuts.
func lastRunes(b []byte, n int) []byte {
	for start := 0; start < len(b) && start < utf8.UTFMax; start++ {
		if utf8.RuneStart(b[start]) {
			b = b[start:]
			break
		}
	}
	i := len(b)
	for ; n > 0 && i > 0; n-- {
		_, size := utf8.DecodeLastRune(b[:i])
		i -= size
	}
	return b[i:]
}

// processes names processes: "sleep (12), sh (13)".
func processes(ps []execenv.Process) string {
	names := make([]string, 0, len(ps))
	for i, p := range ps {
		if i == 20 {
			names = append(names, fmt.Sprintf("and %d more", len(ps)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s (%d)", p.Name, p.PID))
	}
	return clean(strings.Join(names, ", "))
}
