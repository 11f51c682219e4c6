//go:build linux

package namespace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

var errMissing = errors.New("bubblewrap is not installed; install the package bubblewrap (apt install bubblewrap, dnf install bubblewrap)")

// findBubblewrap returns the path of the program, or "".
func findBubblewrap() string {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return ""
	}
	return path
}

// Probe runs bubblewrap with the flags that a sandbox needs, for only that tells
// whether this machine lets it. The error wraps sandbox.ErrNoWall and says what
// to change.
func (p *Provider) Probe(ctx context.Context) error {
	bwrap := findBubblewrap()
	if bwrap == "" {
		return &sandbox.WallError{Wall: sandbox.WallNamespace, Err: errMissing}
	}
	users := []int{os.Geteuid()}
	if users[0] == 0 {
		// Sandboxes run as the workspace's owner, and some kernels let root
		// alone make user namespaces.
		users = append(users, 65534)
	}
	for _, uid := range users {
		if err := probe(ctx, bwrap, uid); err != nil {
			return &sandbox.WallError{Wall: sandbox.WallNamespace, Err: fmt.Errorf("bubblewrap as user %d: %w%s", uid, err, hint())}
		}
	}
	return nil
}

func probe(ctx context.Context, bwrap string, uid int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	a := &arguments{}
	defer a.close()
	gid := os.Getegid()
	if uid != os.Geteuid() {
		gid = uid
	}
	a.isolate(uid, gid, "probe")
	if err := a.root(uid, 1<<20); err != nil {
		return err
	}
	if err := a.bind("/usr", "/mnt", true); err != nil {
		return err
	}
	a.lockRoot()
	cmd := exec.CommandContext(ctx, bwrap, append(a.args, "--", "/usr/bin/true")...)
	cmd.ExtraFiles = a.files
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}
	cmd.Dir = "/"
	if uid != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		out = bytes.TrimSpace(out)
		if bytes.Contains(out, []byte("Unknown option")) {
			return fmt.Errorf("%s; this bubblewrap is too old, at least 0.8.0 with --bind-fd (0.10.0, or a distribution's security update) is needed", out)
		}
		if bytes.Contains(out, []byte("Can't mount proc")) {
			return fmt.Errorf("%s; this machine is a container that covers parts of /proc, in which no sandbox of this wall can be made", out)
		}
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// hint names what keeps this machine's users from making user namespaces, the
// usual reason for which bubblewrap fails; "" when nothing is found.
func hint() string {
	for _, h := range []struct{ file, value, say string }{
		{"/proc/sys/user/max_user_namespaces", "0", "user namespaces are switched off; run sysctl -w user.max_user_namespaces=15000"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "only root may make user namespaces; run sysctl -w kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
			"AppArmor keeps programs without a profile from user namespaces (Ubuntu 24.04 and later); give bwrap one in /etc/apparmor.d, or run sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
	} {
		body, err := os.ReadFile(h.file)
		if err == nil && strings.TrimSpace(string(body)) == h.value {
			return "; " + h.say
		}
	}
	return ""
}
