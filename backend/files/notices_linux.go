package files

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// notices are what the kernel says of directories: an inotify instance, see
// inotify(7). It is read here rather than by fsnotify, which knows directories
// by path: what is to be watched is what was opened, whatever its path means
// by now.
type notices struct {
	file *os.File
	buf  []byte
}

const (
	noticeStructure = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_UNMOUNT
	noticeMask      = noticeStructure&^unix.IN_UNMOUNT | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ONLYDIR

	noticeBuffer = 64 << 10
	noticeReads  = 64 // of one batch: four times the kernel's queue of 16,384 events with short names
)

func newNotices() (*notices, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	switch err {
	case nil:
	case unix.EMFILE, unix.ENFILE:
		return nil, fmt.Errorf("watch directories: this user has too many watchers open; raise fs.inotify.max_user_instances: %w", execenv.ErrBusy)
	case unix.ENOSYS:
		return nil, fmt.Errorf("watch directories: this kernel has no inotify: %w", execenv.ErrUnsupported)
	default:
		return nil, fmt.Errorf("watch directories: %w", err)
	}
	return &notices{file: os.NewFile(uintptr(fd), "inotify"), buf: make([]byte, noticeBuffer)}, nil
}

// watch watches an open directory until forget. Ids are never given twice; the
// same directory has one id.
func (n *notices) watch(dir *os.File, _ string) (id int, err error) {
	raw, err := n.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	// A process may always follow the links of its own descriptors.
	self := "/proc/self/fd/" + strconv.Itoa(int(dir.Fd()))
	var failed error
	err = raw.Control(func(fd uintptr) { id, failed = unix.InotifyAddWatch(int(fd), self, noticeMask) })
	switch {
	case err != nil:
		return 0, err
	case failed == unix.ENOSPC:
		return 0, &execenv.PathError{Path: dir.Name(), Err: execenv.ErrBusy,
			Detail: "this user watches too many directories; raise fs.inotify.max_user_watches"}
	}
	return id, failed
}

func (n *notices) forget(id int) {
	raw, err := n.file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _, _ = unix.InotifyRmWatch(int(fd), uint32(id)) }) // gone with its directory, mostly
}

// next waits until there is something to say.
func (n *notices) next(ctx context.Context) (notice, error) {
	stop := context.AfterFunc(ctx, func() { _ = n.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	out := notice{changed: map[int]bool{}, ended: map[int]bool{}}
	raw, err := n.file.SyscallConn()
	if err != nil {
		return out, err
	}
	for range noticeReads {
		var size int
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			size, failed = unix.Read(int(fd), n.buf)
			for failed == unix.EINTR {
				size, failed = unix.Read(int(fd), n.buf)
			}
			// Only the first read of a batch waits.
			return failed != unix.EAGAIN || len(out.changed) > 0 || out.all
		})
		switch {
		case err != nil:
			return out, err
		case failed == unix.EAGAIN:
			return out, nil
		case failed != nil:
			return out, failed
		}
		out.add(n.buf[:size])
	}
	return out, nil
}

// add takes up a buffer of struct inotify_event.
func (n *notice) add(b []byte) {
	for len(b) >= unix.SizeofInotifyEvent {
		id, mask := int(int32(binary.NativeEndian.Uint32(b))), binary.NativeEndian.Uint32(b[4:])
		name := int(binary.NativeEndian.Uint32(b[12:]))
		b = b[min(unix.SizeofInotifyEvent+name, len(b)):]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			n.all = true
		case mask&unix.IN_IGNORED != 0:
			n.changed[id], n.ended[id] = true, true
		default:
			n.changed[id] = n.changed[id] || mask&noticeStructure != 0
		}
	}
}

func (n *notices) close() { n.file.Close() }
