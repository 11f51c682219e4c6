//go:build linux

package namespace

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// checkReach makes sure that bubblewrap, which runs as the workspace's owner,
// can get to what it mounts: it resolves every source by its path. Without the
// check it would say "Permission denied" of a path whose last part is fine.
func (p *Provider) checkReach(pl plan) error {
	if pl.uid == 0 {
		return nil
	}
	for _, ours := range []string{p.boxes, filepath.Dir(pl.guest)} {
		dir := blocked(ours, pl.uid, pl.gid)
		if dir == "" {
			continue
		}
		return &sandbox.FieldError{Field: "workspace", Reason: fmt.Sprintf(
			"the sandbox runs as its owner, user %d, who cannot pass through %s to Glovebox's data; run chmod o+x %s, or choose --data under /var/lib/glovebox",
			pl.uid, dir, dir)}
	}
	for _, m := range pl.mounts {
		if dir := blocked(filepath.Dir(m.Source), pl.uid, pl.gid); dir != "" {
			field := "mounts"
			if m.Target == pl.workdir {
				field = "workspace"
			}
			return &sandbox.FieldError{Field: field, Reason: fmt.Sprintf(
				"the sandbox runs as user %d, who cannot pass through %s to %s; run chmod o+x %s, or choose another place",
				pl.uid, dir, m.Source, dir)}
		}
	}
	return nil
}

// blocked returns the first directory on the way to dir, dir included, that a
// user cannot pass through, or "".
func blocked(dir string, uid, gid int) string {
	if parent := filepath.Dir(dir); parent != dir {
		if b := blocked(parent, uid, gid); b != "" {
			return b
		}
	}
	info, err := os.Stat(dir)
	if err != nil {
		return dir
	}
	// An access list can give what the mode bits do not show.
	if n, err := unix.Lgetxattr(dir, "system.posix_acl_access", nil); err == nil && n > 0 {
		return ""
	}
	st := info.Sys().(*syscall.Stat_t)
	var bit os.FileMode = 0o001
	switch {
	case int(st.Uid) == uid:
		bit = 0o100
	case int(st.Gid) == gid:
		bit = 0o010
	}
	if info.Mode().Perm()&bit == 0 {
		return dir
	}
	return ""
}
