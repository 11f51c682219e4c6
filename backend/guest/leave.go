//go:build linux

package guest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/guest/process"
)

// Leaving says what a guest that ends leaves to be taken away. Each part is done
// by a process of the user that owns it.
type Leaving struct {
	Dir      string // removed with all that is in it
	Empty    string // a directory that is left, and nothing in it
	Kill     string // the program of a guest that did not end by itself
	FirstTag int    // of the groups of its calls, which are ended with it
	LastTag  int
}

// Leave takes away what a guest has left in a container that it did not own.
func Leave(l Leaving) error {
	var errs []error
	if l.Kill != "" {
		errs = append(errs, endProcesses(l))
	}
	for _, dir := range []string{l.Dir, l.Empty} {
		if dir != "" && (!filepath.IsAbs(dir) || filepath.Clean(dir) != dir || dir == "/") {
			return fmt.Errorf("%q is no directory of a guest", dir)
		}
	}
	if l.Empty != "" {
		entries, err := os.ReadDir(l.Empty)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, e := range entries {
			errs = append(errs, os.RemoveAll(filepath.Join(l.Empty, e.Name())))
		}
	}
	if l.Dir != "" {
		errs = append(errs, os.RemoveAll(l.Dir))
	}
	return errors.Join(errs...)
}

// endTime bounds the wait for the end of what was killed.
const endTime = 3 * time.Second

// endProcesses kills a guest, known by the program that it was started as, and
// the processes that carry one of its groups, until none is left.
func endProcesses(l Leaving) error {
	deadline := time.Now().Add(endTime)
	for {
		left := 0
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return fmt.Errorf("read the processes: %w", err)
		}
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil || pid == os.Getpid() || pid == 1 {
				continue
			}
			if !isServe(pid, l.Kill) && !process.Carries(pid, l.FirstTag, l.LastTag) {
				continue
			}
			left++
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if left == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes of the guest cannot be ended", left)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// isServe says whether a process is the guest of that program. Its arguments are
// what everybody may read of it.
func isServe(pid int, program string) bool {
	argv, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return err == nil && bytes.HasPrefix(argv, []byte(program+"\x00serve\x00"))
}
