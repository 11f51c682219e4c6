package execenv

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// nearLimit is the size up to which a text is searched for a near match.
const nearLimit = 4 << 20

// nearRules are ways to overlook a difference, the smaller ones first. Each
// keeps the number of lines.
var nearRules = []struct {
	what string
	same func(string) string
}{
	{"space at the ends of lines", func(s string) string { return eachLine(s, trimRight) }},
	{"indentation", func(s string) string { return eachLine(s, strings.TrimSpace) }},
	{"typographic quotes, dashes or spaces", plainQuotes},
	{"the Unicode form of accented letters (NFC or NFD)", norm.NFC.String},
	{"upper and lower case", strings.ToLower},
	{"several small ways (spaces, quotes, accents)", func(s string) string {
		return norm.NFC.String(plainQuotes(eachLine(s, strings.TrimSpace)))
	}},
}

// nearMatch says where in body something like old is and how it differs, or
// what to do when there is nothing like it.
func nearMatch(body []byte, old string) string {
	const none = "nothing like it is in the file: read the file again"
	if len(body) > nearLimit || len(old) > nearLimit || strings.TrimSpace(old) == "" {
		return none
	}
	text := strings.ReplaceAll(string(body), "\r\n", "\n")
	old = strings.ReplaceAll(old, "\r\n", "\n")
	for _, rule := range nearRules {
		same := rule.same(text)
		at := strings.Index(same, rule.same(old))
		if at < 0 {
			continue
		}
		line := 1 + strings.Count(same[:at], "\n")
		return fmt.Sprintf("a near match is at line %d and differs in %s: copy the text as it is there", line, rule.what)
	}
	return none
}

func eachLine(s string, f func(string) string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = f(l)
	}
	return strings.Join(lines, "\n")
}

func trimRight(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) }

var quotes = strings.NewReplacer(
	"“", `"`, "”", `"`, "„", `"`, "«", `"`, "»", `"`,
	"‘", "'", "’", "'", "‚", "'", "′", "'",
	"–", "-", "—", "-", "−", "-", "‐", "-", "‑", "-",
	"\u00a0", " ", "\u202f", " ", "…", "...",
)

func plainQuotes(s string) string { return quotes.Replace(s) }
