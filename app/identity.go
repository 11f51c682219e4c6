package app

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// identity is what tells one data directory from another, for as long as it
// exists: the files are made once, readable by their owner alone.
type identity struct {
	instance string // labels what we make; not secret
	secret   []byte // the guests' keys are derived from it
	token    string // of the API
}

func loadIdentity(dir string) (identity, error) {
	var id identity
	instance, err := keep(dir, "instance", 4)
	if err != nil {
		return id, err
	}
	secret, err := keep(dir, "secret", 32)
	if err != nil {
		return id, err
	}
	token, err := keep(dir, tokenFile, tokenBytes)
	if err != nil {
		return id, err
	}
	raw, err := hex.DecodeString(secret)
	if err != nil {
		return id, fmt.Errorf("%s is damaged: %w", filepath.Join(dir, "secret"), err)
	}
	return identity{instance, raw, token}, nil
}

const (
	tokenFile  = "token"
	tokenBytes = 32
)

// keep returns the hex text in a file, which it makes of n random bytes once.
func keep(dir, name string, n int) (string, error) {
	path := filepath.Join(dir, name)
	body, err := os.ReadFile(path)
	if text := strings.TrimSpace(string(body)); err == nil && text != "" {
		return text, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	return renew(dir, name, n)
}

// renew puts n fresh random bytes into a file, as hex, and returns that text.
func renew(dir, name string, n int) (string, error) {
	path := filepath.Join(dir, name)
	random := make([]byte, n)
	rand.Read(random)
	text := hex.EncodeToString(random)
	// Written aside and renamed, so that a crash leaves no half of it.
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(text+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("make %s: %w", name, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return "", fmt.Errorf("make %s: %w", name, err)
	}
	return text, nil
}
