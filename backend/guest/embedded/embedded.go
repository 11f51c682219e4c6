// Package embedded carries the guest's binaries inside the host's, and puts the
// one for a sandbox's architecture where a provider can hand it in. The
// binaries are built by "make guest" and not committed; without them Install
// says so.
package embedded

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

//go:embed all:bin
var bin embed.FS

// ErrNotBuilt means that this binary was built without the guest.
var ErrNotBuilt = errors.New(`this glovebox was built without its guest; run "make build"`)

// Binary returns the guest for linux on arch (amd64 or arm64) and the hex
// SHA-256 of it. The error wraps ErrNotBuilt.
func Binary(arch string) (body []byte, digest string, err error) {
	body, err = bin.ReadFile("bin/glovebox-guest-linux-" + arch)
	if err != nil {
		return nil, "", fmt.Errorf("guest for %s: %w", arch, ErrNotBuilt)
	}
	sum := sha256.Sum256(body)
	return body, hex.EncodeToString(sum[:]), nil
}

// Install writes the guest for arch below dir and returns its path and digest.
// The path holds the digest, so guests of several versions lie side by side
// and one that a sandbox uses is never overwritten. Several processes may
// install at once.
func Install(dir, arch string) (path, digest string, err error) {
	body, digest, err := Binary(arch)
	if err != nil {
		return "", "", err
	}
	path = filepath.Join(dir, digest[:16], "glovebox-guest")
	if info, err := os.Stat(path); err == nil && info.Size() == int64(len(body)) {
		return path, digest, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", "", fmt.Errorf("install the guest: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".guest-*")
	if err != nil {
		return "", "", fmt.Errorf("install the guest: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(body)
	err = errors.Join(err, tmp.Chmod(0o755), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return "", "", fmt.Errorf("install the guest: %w", err)
	}
	return path, digest, nil
}
