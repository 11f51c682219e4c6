//go:build linux

package chromium

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestPrefer(t *testing.T) {
	const ours = `"alternate_error_pages":{"enabled":false},"profile":{"password_manager_leak_detection":false},"spellcheck":{"dictionaries":[],"dictionary":""}`
	for name, test := range map[string]struct {
		before func(file string) error
		want   string
	}{
		"a new profile": {nil, "{" + ours + "}"},
		"what stands there stays": {
			func(file string) error {
				return os.WriteFile(file, []byte(`{"account":{"seen":13440520756824228},"profile":{"password_manager_leak_detection":true},"spellcheck":{"dictionaries":["en-US"]}}`), 0o600)
			},
			`{"account":{"seen":13440520756824228},` + ours + "}",
		},
		"what is none": {func(file string) error { return os.WriteFile(file, []byte("[1"), 0o600) }, "{" + ours + "}"},
		"a pipe":       {func(file string) error { return unix.Mkfifo(file, 0o600) }, "{" + ours + "}"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, preferencesFile)
			if test.before != nil {
				if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := test.before(file); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := prefer(dir); err != nil {
					t.Fatal(err)
				}
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A command in the sandbox may make the profile's files links to what is not its own.
func TestPrefer_followsNoLinkOut(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(dir, "Default")); err != nil {
		t.Fatal(err)
	}
	if err := prefer(dir); err == nil {
		t.Error("it wrote through a link")
	}
	if made, err := os.ReadDir(elsewhere); err != nil || len(made) > 0 {
		t.Errorf("elsewhere is %v, %v", made, err)
	}
}
