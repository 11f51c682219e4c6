//go:build unix

package terminal

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

const (
	defaultCols, defaultRows = 80, 24
	maxSize                  = 1000
)

// Check fills a request's size in and finds what is wrong with it.
func Check(r *execenv.TerminalRequest) error {
	if r.Cols == 0 {
		r.Cols = defaultCols
	}
	if r.Rows == 0 {
		r.Rows = defaultRows
	}
	if err := CheckSize(r.Cols, r.Rows); err != nil {
		return err
	}
	if len(r.Argv) > 0 && r.Argv[0] == "" {
		return fmt.Errorf("a terminal's program has no name: %w", execenv.ErrInvalid)
	}
	for _, a := range slices.Concat(r.Argv, r.Env, []string{r.Dir}) {
		if strings.ContainsRune(a, 0) {
			return fmt.Errorf("a NUL byte in the request: %w", execenv.ErrInvalid)
		}
	}
	return nil
}

// CheckSize finds a size that no terminal has.
func CheckSize(cols, rows int) error {
	if cols < 1 || cols > maxSize || rows < 1 || rows > maxSize {
		return fmt.Errorf("a terminal of %d columns and %d rows; choose 1 to %d: %w", cols, rows, maxSize, execenv.ErrInvalid)
	}
	return nil
}

// FindShell returns the shell of a place: the one that its environment names,
// if it is there, else bash, else sh. look returns the path of a program, or "".
func FindShell(named string, look func(name string) string) string {
	for _, name := range []string{named, "bash", "sh"} {
		if name == "" {
			continue
		}
		if found := look(name); found != "" {
			return found
		}
	}
	return "/bin/sh"
}

// Variables are what the programs of a terminal are told of it and, for a shell
// that has no prompt of its own, who is where: user@host:directory.
func Variables(program, user, host string) []string {
	env := []string{"TERM=xterm-256color", "COLORTERM=truecolor"}
	switch path.Base(program) {
	case "sh", "ash", "dash", "bash", "busybox":
		// Expanded by all of them, unlike \w; and an rc file's own word counts.
		env = append(env, "PS1="+user+"@"+host+`:${PWD}\$ `)
	}
	return env
}
