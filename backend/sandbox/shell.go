package sandbox

import (
	"regexp"
	"strings"
)

// ShellLine writes arguments as one line of a POSIX shell: what a HandCommand's
// Text is made with.
func ShellLine(argv []string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		quoted[i] = shellQuote(arg)
	}
	return strings.Join(quoted, " ")
}

// plain is what no shell reads anything into.
var plain = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// shellQuote writes one argument for a POSIX shell: within single quotes nothing
// has a meaning but their end.
func shellQuote(arg string) string {
	if plain.MatchString(arg) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
