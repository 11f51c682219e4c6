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
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

//go:embed all:bin
var bin embed.FS

// ErrNotBuilt means that this binary was built without the guest.
var ErrNotBuilt = errors.New(`this glovebox was built without its guest; run "make build"`)

// file names the guest for linux on an architecture, as Go names it.
func file(arch string) string { return "bin/glovebox-guest-linux-" + arch }

// Built returns nil where there is a guest for linux on arch (amd64 or arm64); the
// error wraps ErrNotBuilt.
func Built(arch string) error {
	if _, err := fs.Stat(bin, file(arch)); err != nil {
		return fmt.Errorf("guest for %s: %w", arch, ErrNotBuilt)
	}
	return nil
}

// Binary returns the guest for linux on arch. The error wraps ErrNotBuilt.
func Binary(arch string) ([]byte, error) {
	if err := Built(arch); err != nil {
		return nil, err
	}
	return bin.ReadFile(file(arch))
}

// digests are the SHA-256 of the guests, by architecture, in hex. They do not
// change, and to make one takes longer than much of a sandbox's start.
var digests sync.Map

func digestOf(arch string) (string, error) {
	if d, ok := digests.Load(arch); ok {
		return d.(string), nil
	}
	body, err := Binary(arch)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(body)
	d := hex.EncodeToString(sum[:])
	digests.Store(arch, d)
	return d, nil
}

// Install writes the guest for arch below dir, where it is not there yet, and
// returns its path. The path holds its digest, so guests of several versions lie
// side by side and one that a sandbox uses is never overwritten. Several processes
// may install at once.
func Install(dir, arch string) (path string, err error) {
	digest, err := digestOf(arch)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, digest[:16], "glovebox-guest")
	own, err := fs.Stat(bin, file(arch))
	if err != nil {
		return "", fmt.Errorf("install the guest: %w", err)
	}
	if there, err := os.Stat(path); err == nil && there.Size() == own.Size() {
		return path, nil
	}
	body, err := Binary(arch)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("install the guest: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".guest-*")
	if err != nil {
		return "", fmt.Errorf("install the guest: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(body)
	err = errors.Join(err, tmp.Chmod(0o755), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return "", fmt.Errorf("install the guest: %w", err)
	}
	return path, nil
}
