package docker

import (
	"context"
	"errors"
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
	source := pl.workspace()
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

// workspace returns the directory here that the workdir is, "" for none.
func (pl plan) workspace() string {
	for _, m := range pl.mounts {
		if m.Target == pl.workdir && m.Kind == sandbox.LocalPath {
			return m.Source
		}
	}
	return ""
}

// provePlace makes a directory in the workspace and looks for it inside, where
// the engine knows the workspace by another name: one that is written down wrong
// would give the sandbox a directory that nobody meant.
func (p *Provider) provePlace(ctx context.Context, h sandbox.Handle, pl plan) error {
	source := pl.workspace()
	if source == "" || !p.bindless() {
		return nil
	}
	mark, err := os.MkdirTemp(source, ".glovebox-place-")
	if err != nil {
		return fmt.Errorf("prove that the sandbox has the workspace: %w", err)
	}
	defer os.Remove(mark)
	c := p.guestClient(h)
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	_, err = c.Stat(ctx, execenv.Caller{}, pl.workdir+"/"+filepath.Base(mark))
	if errors.Is(err, execenv.ErrNotFound) {
		return &sandbox.FieldError{Field: "workspace", Reason: fmt.Sprintf("%s is not %s on the engine's machine; correct docker.path_map", source, pl.placedWorkspace())}
	}
	if err != nil {
		return fmt.Errorf("prove that the sandbox has the workspace: %w", err)
	}
	return nil
}

// placedWorkspace returns workspace by the engine's name.
func (pl plan) placedWorkspace() string {
	for _, m := range pl.placed {
		if m.Target == pl.workdir {
			return m.Source
		}
	}
	return ""
}
