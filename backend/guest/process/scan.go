//go:build linux

package process

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

func procPath(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}

// member is one living process of a scan.
type member struct {
	execenv.Process
	state byte
	key   uint64
}

// scan returns every process that carries a mark and is not a zombie. settled
// says that nothing vanished meanwhile: what does may have forked, and a child
// whose number is lower than its parent's is then missed. With visit set, that
// is called for each number instead, and looks or not.
func (t *Table) scan(visit func(pid int, look func() (member, bool))) (all []member, settled bool) {
	dir, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer unix.Close(dir)
	settled = true
	// A small buffer keeps listing and looking close together: the kernel
	// lists by number, so most children of a listed process come later.
	var names []string
	list, buf := make([]byte, 1024), make([]byte, 4096)
	for {
		n, err := unix.Getdents(dir, list)
		if err != nil || n <= 0 {
			return all, settled && err == nil
		}
		_, _, names = unix.ParseDirent(list[:n], -1, names[:0])
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil || pid == t.self {
				continue
			}
			if visit != nil {
				visit(pid, func() (member, bool) {
					m, carries, _ := t.look(pid, buf)
					return m, carries
				})
				continue
			}
			m, carries, err := t.look(pid, buf)
			if err != nil {
				settled = false
			}
			if carries {
				all = append(all, m)
			}
		}
	}
}

// look reads one process; carries says that it lives and carries a mark.
func (t *Table) look(pid int, buf []byte) (m member, carries bool, err error) {
	status, err := readStatus(pid, buf)
	if err != nil {
		return m, false, err
	}
	m.PID = pid
	m.state = field(status, "\nState:")
	if m.state == 'Z' || m.state == 'X' || m.state == 0 {
		return m, false, nil
	}
	if m.key, carries, err = t.marks.keyOf(pid, status); !carries || err != nil {
		return m, false, err
	}
	m.Name = nameOf(status)
	return m, true, nil
}

func readStatus(pid int, buf []byte) ([]byte, error) {
	fd, err := unix.Open(procPath(pid, "status"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}

func field(status []byte, key string) byte {
	_, rest, ok := bytes.Cut(status, []byte(key))
	rest = bytes.TrimLeft(rest, " \t")
	if !ok || len(rest) == 0 {
		return 0
	}
	return rest[0]
}

func nameOf(status []byte) string {
	name, _, _ := bytes.Cut(status, []byte{'\n'})
	return string(bytes.TrimSpace(bytes.TrimPrefix(name, []byte("Name:"))))
}

// Sweep gives back those of marks that no living process carries, in one scan,
// and returns the others with their processes. A mark that was given back must
// not be asked for again, and is not killed any more.
func (t *Table) Sweep(held []*Mark) map[*Mark][]execenv.Process {
	used, settled := t.used()
	for range 3 {
		if settled {
			break
		}
		used, settled = t.used()
	}
	carried := map[*Mark][]execenv.Process{}
	for _, mark := range held {
		if ps := used[mark.key]; len(ps) > 0 || !t.marks.release(mark) {
			carried[mark] = ps
		}
	}
	return carried
}

// Living counts the processes that carry a mark: of commands that run, and what
// others have left in the background. Those with one of the marks in but are left
// out.
func (t *Table) Living(but ...*Mark) int {
	used, _ := t.used()
	for _, mark := range but {
		delete(used, mark.key)
	}
	n := 0
	for _, ps := range used {
		n += len(ps)
	}
	return n
}

func (t *Table) used() (used map[uint64][]execenv.Process, settled bool) {
	used = map[uint64][]execenv.Process{}
	t.raise(func() {
		var all []member
		all, settled = t.scan(nil)
		for _, m := range all {
			used[m.key] = append(used[m.key], m.Process)
		}
	})
	return used, settled
}
