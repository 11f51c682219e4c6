package session

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// Files is a person's view of the files in a session's place. What it reads does
// not count as read by the agent, and leaves no trace in the timeline.
type Files struct {
	view    execenv.Viewer
	workdir string
}

// Files opens the files of a session's place; on the host itself, those of its
// workspace alone.
func (s *Service) Files(ctx context.Context, id string) (*Files, error) {
	env, _, err := s.personEnv(ctx, id)
	if err != nil {
		return nil, err
	}
	f := &Files{workdir: env.Where().Workdir}
	if e, ok := env.(execenv.Fenced); ok {
		f.view = e.View()
	} else if f.view, ok = env.(execenv.Viewer); !ok {
		return nil, fmt.Errorf("look at the files of session %s: %w", id, execenv.ErrUnsupported)
	}
	return f, nil
}

// Path returns a path as it is in the place: "" is the workspace, and one that
// is not absolute begins there.
func (f *Files) Path(p string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join(f.workdir, p)
}

// List lists a directory.
func (f *Files) List(ctx context.Context, p string) (execenv.ListResult, error) {
	return f.view.List(ctx, f.Path(p))
}

// Read reads a piece of a file.
func (f *Files) Read(ctx context.Context, r execenv.ReadRequest) (execenv.ReadResult, error) {
	r.Path = f.Path(r.Path)
	return f.view.ReadFile(ctx, r)
}

// watch reports directories that change, by the paths that were given.
func (f *Files) watch(ctx context.Context, dirs []string, changed func([]string)) error {
	given := make(map[string][]string, len(dirs))
	var ask []string
	for _, d := range dirs {
		p := f.Path(d)
		if given[p] == nil {
			ask = append(ask, p)
		}
		given[p] = append(given[p], d)
	}
	return f.view.Watch(ctx, ask, func(now []string) {
		var out []string
		for _, p := range now {
			out = append(out, given[p]...)
		}
		changed(out)
	})
}

// How long a watch that failed waits before it is taken up again.
const (
	watchWait    = 250 * time.Millisecond // at first; doubled after
	watchMaxWait = 4 * time.Second
)

// final are the faults of a watch that waiting does not mend.
var final = []error{
	ErrUnknown, execenv.ErrTooLarge, execenv.ErrInvalid, execenv.ErrPermission, execenv.ErrEscape, execenv.ErrUnsupported,
}

// WatchFiles reports directories of a session's place that change, until ctx
// ends. Where the watch breaks, because the sandbox was stopped, or the guest
// went away, it is taken up again as soon as it can be, and reports all of dirs:
// what happened meanwhile is not known. trouble is told once of each time that
// it does not hold. Both are called from one goroutine. It returns when ctx
// ends, or with a fault that waiting does not mend.
func (s *Service) WatchFiles(ctx context.Context, id string, dirs []string, changed func(dirs []string), trouble func(error)) error {
	wait, told := watchWait, false
	for {
		err := s.watchOnce(ctx, id, dirs, func(now []string) {
			wait, told = watchWait, false
			changed(now)
		})
		if ctx.Err() != nil || errors.Is(err, ErrEnded) {
			return nil
		}
		if slices.ContainsFunc(final, func(f error) bool { return errors.Is(err, f) }) {
			return err
		}
		if err != nil && !told {
			told = true
			trouble(err)
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, watchMaxWait)
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Service) watchOnce(ctx context.Context, id string, dirs []string, changed func([]string)) error {
	f, err := s.Files(ctx, id)
	if err != nil {
		return err
	}
	return f.watch(ctx, dirs, changed)
}
