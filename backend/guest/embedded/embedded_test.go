package embedded_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/guest/embedded"
)

func TestInstall(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			want, err := embedded.Binary(arch)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			path, err := embedded.Install(dir, arch)
			if err != nil {
				t.Fatal(err)
			}
			is := func(what string) {
				t.Helper()
				got, err := os.ReadFile(path)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %d bytes, %v, want the guest's %d", what, len(got), err, len(want))
				}
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
					t.Errorf("%s: %v, %v", what, info, err)
				}
			}
			is("installed")

			// One that is there is left alone: a sandbox may use it.
			before, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := embedded.Install(dir, arch); err != nil || again != path {
				t.Errorf("Install() again = %q, %v, want %q", again, err, path)
			}
			if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
				t.Errorf("it was written anew: %v", err)
			}

			// What was cut short is not taken for it.
			if err := os.Truncate(path, 1000); err != nil {
				t.Fatal(err)
			}
			if _, err := embedded.Install(dir, arch); err != nil {
				t.Fatal(err)
			}
			is("mended")
			if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestBuilt_otherMachines(t *testing.T) {
	for _, arch := range []string{"", "riscv64", "../embedded.go"} {
		if err := embedded.Built(arch); !errors.Is(err, embedded.ErrNotBuilt) {
			t.Errorf("Built(%q) = %v, want ErrNotBuilt", arch, err)
		}
		if _, err := embedded.Binary(arch); !errors.Is(err, embedded.ErrNotBuilt) {
			t.Errorf("Binary(%q): %v, want ErrNotBuilt", arch, err)
		}
		if _, err := embedded.Install(t.TempDir(), arch); !errors.Is(err, embedded.ErrNotBuilt) {
			t.Errorf("Install(%q): %v, want ErrNotBuilt", arch, err)
		}
	}
}
