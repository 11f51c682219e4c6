//go:build linux

package namespace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// launch starts the guest of a locked box that does not run, and returns when
// it answers. On an error nothing runs.
func (p *Provider) launch(ctx context.Context, b *box, pl plan, step func(string)) (_ sandbox.Handle, err error) {
	if r, err := b.run(); err == nil {
		if err := p.collected(ctx, b.ID, r.Outer); err != nil {
			return sandbox.Handle{}, err
		}
	}
	if err := b.forget(ctx); err != nil {
		return sandbox.Handle{}, err
	}
	args, err := p.arguments(b, pl)
	if err != nil {
		return sandbox.Handle{}, err
	}
	defer args.close()
	out, err := b.openLog()
	if err != nil {
		return sandbox.Handle{}, err
	}
	defer out.Close()
	// An open one: the first file that a program opens without it takes its place.
	in, err := os.Open(os.DevNull)
	if err != nil {
		return sandbox.Handle{}, err
	}
	defer in.Close()
	pipes, err := newPipes(args)
	if err != nil {
		return sandbox.Handle{}, err
	}
	defer pipes.close()

	config, err := json.Marshal(p.guestConfig(b, pl))
	if err != nil {
		return sandbox.Handle{}, err
	}
	argv := append([]string{pl.bwrap}, pipes.args...)
	argv = append(argv, args.args...)
	argv = append(argv, "--", insideGuest, "serve", "--config", string(config))
	outer, err := start(pl.bwrap, argv, append([]*os.File{in, out, out}, args.files...), pl.uid, pl.gid)
	if err != nil {
		return sandbox.Handle{}, fmt.Errorf("start bubblewrap: %w", err)
	}
	p.reap(b, outer)
	defer func() {
		if err == nil {
			return
		}
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		// First the bubblewrap outside: as long as it lives, it may be about to
		// make the sandbox. What it made until then waits on our pipe and is
		// found by its arguments.
		outer.Kill()
		err = errors.Join(err, p.collected(clean, b.ID, outer.Pid), b.kill(clean), b.forget(clean))
	}()
	args.close() // so that an end inside is an end of file here

	proc, err := p.admit(ctx, b, pl, outer.Pid, pipes)
	if err != nil {
		return sandbox.Handle{}, err
	}
	defer proc.Close()
	step("start")
	h := p.handle(b)
	if err := p.greet(ctx, b, h.Dial, proc); err != nil {
		return sandbox.Handle{}, err
	}
	step("guest ready")
	return h, nil
}

// admit takes the sandbox's init, which waits, writes down who it is, puts it
// under its limits and lets it go on.
func (p *Provider) admit(ctx context.Context, b *box, pl plan, outer int, pipes *pipes) (*process, error) {
	pid, ns, err := pipes.child(ctx)
	if err != nil {
		return nil, fmt.Errorf("bubblewrap made no sandbox: %w%s%s", err, b.lastWords(), hint())
	}
	id, err := identify(pid)
	if err != nil {
		return nil, fmt.Errorf("bubblewrap ended%s", b.lastWords())
	}
	r := run{identity: id, Namespace: ns, Outer: outer, StartedAt: time.Now().UTC(), Mounts: pl.mounts}
	r.Cgroups, r.NotEnforced, err = enforce(b.ID, pid, pl.uid, pl.limits)
	// With a fault too: what was made is removed by what is written here.
	if err = errors.Join(err, writeJSON(filepath.Join(b.dir, processFile), r)); err != nil {
		return nil, fmt.Errorf("%w%s", err, b.lastWords())
	}
	proc, err := find(id)
	if proc == nil {
		return nil, errors.Join(errors.New("bubblewrap ended"+b.lastWords()), err)
	}
	if err := pipes.release(); err != nil {
		proc.Close()
		return nil, err
	}
	return proc, nil
}

// forget removes the traces of the last start.
func (b *box) forget(ctx context.Context) error {
	err := b.removeCgroups(ctx)
	for _, name := range []string{processFile, stoppedFile, filepath.Join("run", socketFile)} {
		if e := os.Remove(filepath.Join(b.dir, name)); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// arguments builds bubblewrap's command line but for the command. The first
// descriptor is the guest's listener.
func (p *Provider) arguments(b *box, pl plan) (_ *arguments, err error) {
	a := &arguments{}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	l, err := b.listen()
	if err != nil {
		return nil, err
	}
	a.pass(l)
	a.isolate(pl.uid, pl.gid, b.short())
	if err := a.root(pl.uid, pl.limits.Shm); err != nil {
		return nil, err
	}
	if err := b.bindEtc(a); err != nil {
		return nil, err
	}
	binds := []sandbox.Mount{
		{Source: pl.guest, Target: insideGuest, Mode: sandbox.ReadOnly},
		{Source: filepath.Join(b.dir, "state"), Target: insideState},
		{Source: filepath.Join(b.dir, "home"), Target: insideHome},
	}
	for _, m := range append(binds, pl.mounts...) {
		if err := a.bind(m.Source, m.Target, m.Mode == sandbox.ReadOnly); err != nil {
			return nil, err
		}
	}
	a.lockRoot()
	a.add("--chdir", pl.workdir)
	return a, nil
}

// guestConfig tells the guest what it is. Its directories are hidden from the
// commands, which run as the same user, and the devices cannot be changed.
func (p *Provider) guestConfig(b *box, pl plan) wire.GuestConfig {
	return wire.GuestConfig{
		GuestID:   b.ID,
		PublicKey: p.publicKey(b.ID),
		ListenFD:  3,
		StateDir:  insideState,
		LockFile:  insideState + "/lock",
		Workdir:   pl.workdir,
		Home:      insideHome,
		User:      "host",
		Tag:       wire.TagUTS,
		Env:       pl.env,
		Relay:     pl.relay,
		Hide:      []string{insideRun},
		ReadOnly:  devices(),
	}
}

// listen opens the socket that the guest inherits. It goes by a descriptor of
// its directory, since the address of a socket holds 107 bytes and a path more.
func (b *box) listen() (*os.File, error) {
	dir, err := b.runDir()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: socketIn(dir)})
	if err != nil {
		return nil, fmt.Errorf("open the guest's socket: %w", err)
	}
	defer l.Close()
	l.SetUnlinkOnClose(false)
	return l.File()
}

func (b *box) dial(ctx context.Context) (net.Conn, error) {
	dir, err := b.runDir()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var d net.Dialer
	return d.DialContext(ctx, "unix", socketIn(dir))
}

func (b *box) runDir() (*os.File, error) {
	fd, err := unix.Open(filepath.Join(b.dir, "run"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the box: %w", err)
	}
	return os.NewFile(uintptr(fd), "run"), nil
}

func socketIn(dir *os.File) string { return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socketFile) }

// maxLog is how long a log may be when another start begins to write to it.
const maxLog = 1 << 20

func (b *box) openLog() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(b.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.Size() > maxLog {
		if err := f.Truncate(0); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// lastWords is the end of the log, for an error.
func (b *box) lastWords() string {
	text, err := tail(filepath.Join(b.dir, "log"), 5)
	if text = strings.TrimSpace(text); err != nil || text == "" {
		return ""
	}
	return ": " + text
}

// pipes are bubblewrap's --info-fd, over which it tells the pid of the init,
// and --block-fd, on which that init waits.
type pipes struct {
	args          []string
	info, unblock *os.File
}

func newPipes(a *arguments) (*pipes, error) {
	infoR, infoW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	blockR, blockW, err := os.Pipe()
	if err != nil {
		infoR.Close()
		infoW.Close()
		return nil, err
	}
	p := &pipes{info: infoR, unblock: blockW}
	p.args = []string{"--info-fd", a.pass(infoW), "--block-fd", a.pass(blockR)}
	return p, nil
}

func (p *pipes) close() {
	p.info.Close()
	p.unblock.Close()
}

// child reads the pid of the sandbox's init and the inode of its namespace.
func (p *pipes) child(ctx context.Context) (pid int, ns uint64, err error) {
	stop := context.AfterFunc(ctx, func() { p.info.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var info struct {
		PID       int    `json:"child-pid"`
		Namespace uint64 `json:"pid-namespace"`
	}
	err = json.NewDecoder(io.LimitReader(p.info, 4096)).Decode(&info)
	switch {
	case ctx.Err() != nil:
		return 0, 0, ctx.Err()
	case errors.Is(err, io.EOF):
		return 0, 0, errors.New("it ended")
	case err != nil:
		return 0, 0, err
	case info.PID <= 0:
		return 0, 0, errors.New("it names no process")
	}
	return info.PID, info.Namespace, nil
}

func (p *pipes) release() error {
	_, err := p.unblock.Write([]byte{1})
	return err
}

// start runs a program in a session of its own as uid and gid, without
// supplementary groups where they can be given up.
func start(path string, argv []string, files []*os.File, uid, gid int) (*os.Process, error) {
	attr := &os.ProcAttr{
		Env:   []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"},
		Dir:   "/",
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	if os.Geteuid() == 0 {
		attr.Sys.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	var outer *os.Process
	var err error
	var wg sync.WaitGroup
	wg.Go(func() {
		// A session keyring is inherited over namespaces, with all that the
		// host's user keeps in it. It belongs to a thread, so this one is given
		// an empty one and ends with the goroutine, as it is never unlocked. A
		// kernel without keyrings has nothing to hide.
		runtime.LockOSThread()
		// Go opens everything close-on-exec, so that only files goes along. What
		// whoever started us left open is not so, and would end up inside.
		if err = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
			err = fmt.Errorf("keep our descriptors to ourselves (Linux 5.11 or later is needed): %w", err)
			return
		}
		if _, e := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); e != nil && !errors.Is(e, unix.ENOSYS) {
			err = fmt.Errorf("leave the session keyring: %w", e)
			return
		}
		outer, err = os.StartProcess(path, argv, attr)
	})
	wg.Wait()
	return outer, err
}

func (p *Provider) handle(b *box) sandbox.Handle {
	return sandbox.Handle{
		BaseURL:   BaseURL,
		SandboxID: b.ID,
		ShortID:   b.short(),
		GuestID:   b.ID,
		Workdir:   cmp.Or(b.Spec.Workdir, sandbox.DefaultWorkdir),
		Dial:      b.dial,
	}
}

// tail returns the last n lines of a file, of at most 64 KB.
func tail(name string, n int) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	const most = 64 << 10
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return "", err
		}
	}
	body, err := io.ReadAll(io.LimitReader(f, most))
	lines := strings.SplitAfter(string(body), "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	}
	return strings.Join(lines[max(0, len(lines)-n):], ""), err
}
