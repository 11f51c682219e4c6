package local

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/files"
)

var (
	_ execenv.Fenced  = (*Env)(nil)
	_ execenv.Watcher = (*Env)(nil)
)

// View returns a Viewer of the workspace alone.
func (e *Env) View() execenv.Viewer { return e.view }

// newView returns an Engine that reads nothing outside a workspace. It is asked
// with the real path of what is about to be opened, and that alone is opened.
func newView(workspace string) *files.Engine {
	return files.New(files.Options{Refuse: func(path string, _ bool) error {
		real, err := filepath.EvalSymlinks(workspace)
		if err != nil {
			return fmt.Errorf("workspace %s: %w: put it back", workspace, execenv.ErrWorkdirGone)
		}
		if path != real && !strings.HasPrefix(path, strings.TrimSuffix(real, "/")+"/") {
			return &execenv.PathError{Path: path, Err: execenv.ErrEscape, Detail: "this view is of " + workspace + " alone"}
		}
		return nil
	}})
}
