package lifetime

import (
	"context"
	"fmt"
	"io"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Restart stops a root task's sandbox and starts the same one again, with its
// contents. Nothing comes between the two, and once begun neither is given up
// when ctx ends: a sandbox that was only stopped would be half a restart. The
// states are shown as they come, stopped and then ready. One that is stopped is
// only started. The errors are those of Stop and Attach.
func (m *Manager) Restart(ctx context.Context, rootTaskID string) (Binding, error) {
	return m.bind(context.WithoutCancel(ctx), "restart", rootTaskID, func(ctx context.Context, r *root) (Binding, error) {
		rec, err := m.held(ctx, rootTaskID)
		if err != nil {
			return Binding{}, err
		}
		if err := m.ours(rec, "restart"); err != nil {
			return Binding{}, err
		}
		if rec.State != sandbox.StateStopped {
			if err := m.stop(ctx, r, rec, sandbox.CauseByHand); err != nil {
				return Binding{}, err
			}
			m.mu.Lock()
			rec = r.rec // as the stop has written it
			m.mu.Unlock()
		}
		return m.attach(ctx, r, rec)
	})
}

// maxLogs bounds what Logs returns.
const maxLogs = 1 << 20

// Logs returns the last lines that the own process of a root task's sandbox
// wrote, also of one that has stopped: that is when they are asked for.
func (m *Manager) Logs(ctx context.Context, rootTaskID string, tail int) (string, error) {
	ctx, done, err := m.begin(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	rec, ok, err := m.live(ctx, rootTaskID)
	if err != nil {
		return "", err
	}
	if !ok || rec.Ref == "" {
		return "", errNone(rootTaskID)
	}
	p, err := m.provider(rec.Wall)
	if err != nil {
		return "", err
	}
	l, ok := p.(sandbox.Logger)
	if !ok {
		return "", fmt.Errorf("read the log of a %s sandbox: %w", rec.Wall, sandbox.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	body, err := l.Logs(ctx, rec.Ref, tail)
	if err != nil {
		return "", fmt.Errorf("read the sandbox's log: %w", err)
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxLogs))
	if err != nil {
		return "", fmt.Errorf("read the sandbox's log: %w", err)
	}
	return string(text), nil
}
