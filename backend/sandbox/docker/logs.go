package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// maxLogs bounds what is read of a log into memory, since a line has no end of
// its own. The newest part is kept.
const maxLogs = 1 << 20

// Logs returns the last lines that the guest wrote, of a container that runs or
// has ended; see sandbox.Logger.
func (p *Provider) Logs(ctx context.Context, ref sandbox.Ref, tail int) (io.ReadCloser, error) {
	at, err := p.spot(ref)
	if err != nil {
		return nil, err
	}
	if _, err := p.connect(ctx); err != nil {
		return nil, fmt.Errorf("read the log of %s: %w", at.id[:12], err)
	}
	if _, err := p.inspectSpot(ctx, at); err != nil {
		return nil, err
	}
	text, err := p.logs(ctx, at.id, tail, false)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// logs returns the last lines that a container wrote, both streams in the order they
// came. One that has a terminal has a single stream, without marks.
func (p *Provider) logs(ctx context.Context, id string, tail int, terminal bool) (string, error) {
	return call(ctx, p, "read the container's log", readTimeout, func(ctx context.Context) (string, error) {
		body, err := p.engine.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: fmt.Sprint(tail)})
		if err != nil {
			return "", err
		}
		defer body.Close()
		var text newest
		if terminal {
			_, err = io.Copy(&text, body)
		} else {
			_, err = stdcopy.StdCopy(&text, &text, body)
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return "", err
		}
		return text.String(), nil
	})
}

// newest keeps the last maxLogs bytes of what is written to it.
type newest struct{ buf []byte }

func (n *newest) Write(b []byte) (int, error) {
	n.buf = append(n.buf, b...)
	if len(n.buf) > 2*maxLogs { // moved seldom
		n.buf = append(n.buf[:0], n.buf[len(n.buf)-maxLogs:]...)
	}
	return len(b), nil
}

func (n *newest) String() string { return string(n.buf[max(0, len(n.buf)-maxLogs):]) }
