// Command cmd writes the UI's types. Its argument is the directory of go.mod.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/glovebox-dev/glovebox/backend/httpapi/internal/tsgen"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tsgen:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: cmd ROOT, the directory of go.mod")
	}
	ts, err := tsgen.TypeScript(args[0])
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(args[0], tsgen.Output), []byte(ts), 0o644)
}
