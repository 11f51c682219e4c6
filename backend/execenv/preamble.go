package execenv

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Preamble returns shell text that is put between the change of directory and a
// command, with its own separator, such as "export TOKEN=x && "; "" is nothing.
// It is asked fresh for every command and never for an operation on files. An
// error stops the command, as does text that fails before it.
type Preamble func(ctx context.Context, argv []string) (string, error)

// preambleVariable carries a preamble to the shell that evaluates it: what one
// mints is often a secret, and an argument list can be read by every user.
const preambleVariable = "GLOVEBOX_PREAMBLE"

// withPreamble returns c as a command that evaluates prefix in its directory
// first. The command itself does not see how.
func (c Command) withPreamble(prefix string) Command {
	if prefix == "" {
		return c
	}
	// set -e, so that what fails stops the command also where lines are its separator.
	const script = `set -e; p=$` + preambleVariable + `; unset ` + preambleVariable + `; eval "$p"'exec "$@"'`
	c.Argv = append([]string{"sh", "-c", script, "sh"}, c.Argv...)
	c.Env = append(slices.Clone(c.Env), preambleVariable+"="+prefix)
	return c
}

// Prepare asks p for the preamble of c and returns c with it. A nil Preamble
// changes nothing.
func (p Preamble) Prepare(ctx context.Context, c Command) (Command, error) {
	if p == nil || len(c.Argv) == 0 {
		return c, nil
	}
	prefix, err := p(ctx, slices.Clone(c.Argv))
	if err != nil {
		return c, fmt.Errorf("the preamble of a command: %w; the command was not run", err)
	}
	return c.withPreamble(prefix), nil
}

// Quote returns words as text that a POSIX shell reads as just these words.
func Quote(words ...string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteByte('\'')
		b.WriteString(strings.ReplaceAll(w, "'", `'\''`))
		b.WriteByte('\'')
	}
	return b.String()
}
