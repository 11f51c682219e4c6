package docker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// proveOwner writes a file in the workspace from inside and reads its owner
// outside. On an engine that maps user ids this is the only way to know that
// the files a sandbox makes will belong to the workspace's owner.
func (p *Provider) proveOwner(ctx context.Context, h sandbox.Handle, pl plan) error {
	if pl.user != "host" {
		return nil // another user's files were asked for
	}
	source := ""
	for _, m := range pl.mounts {
		if m.Target == pl.workdir && m.Kind == sandbox.LocalPath {
			source = m.Source
		}
	}
	if source == "" {
		return nil
	}
	name := ".glovebox-owner-" + h.GuestID[:8]
	c := p.guestClient(h)
	defer c.Close()
	defer os.Remove(filepath.Join(source, name))
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if _, err := c.WriteFile(ctx, execenv.Caller{}, execenv.WriteRequest{Path: pl.workdir + "/" + name, Mode: execenv.WriteExclusive}); err != nil {
		return fmt.Errorf("the engine maps user ids and the sandbox cannot write to %s: %w; give the directory to the engine's user, or use an engine without user mapping", source, err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(filepath.Join(source, name), &st); err != nil {
		return fmt.Errorf("read the owner of a new file in %s: %w", source, err)
	}
	if int(st.Uid) != pl.uid {
		return fmt.Errorf("the engine maps user ids: a file made in %s belongs to uid %d, not to its owner %d; use an engine without user mapping, or user = root", source, st.Uid, pl.uid)
	}
	return nil
}
