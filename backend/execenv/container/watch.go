package container

import (
	"context"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

var _ execenv.Viewer = (*Env)(nil)

// Watch tells when directories change; see execenv.Watcher. It ends when the
// channel breaks, with the reason: what happened meanwhile is not known then.
func (e *Env) Watch(ctx context.Context, dirs []string, changed func(dirs []string)) error {
	c, err := e.channel(ctx)
	if err != nil {
		return err
	}
	given := make(map[string][]string, len(dirs)) // by the absolute path
	var ask []string
	for _, d := range dirs {
		abs := c.abs(d)
		if given[abs] == nil {
			ask = append(ask, abs)
		}
		given[abs] = append(given[abs], d)
	}
	err = c.Watch(ctx, e.caller, ask, func(now []string) {
		var out []string
		for _, abs := range now {
			out = append(out, given[abs]...)
		}
		changed(out)
	})
	if !broken(err) || ctx.Err() != nil {
		return err
	}
	if why := e.why(ctx); why != nil {
		return why
	}
	return silent(err)
}
