package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// sshTarget is an engine behind ssh.
type sshTarget struct {
	user, host, port string
	socket           string // of the engine there; "" for that of its docker command
}

// parseSSH reads ssh://[USER@]HOST[:PORT][/path/to/docker.sock]. What ssh could
// take for an option is refused.
func parseSSH(address string) (sshTarget, error) {
	u, err := url.Parse(address)
	if err != nil {
		return sshTarget{}, errors.New("it does not parse; write ssh://USER@HOST")
	}
	if _, has := u.User.Password(); has {
		return sshTarget{}, errors.New("it holds a password; use a key, with an agent where that has a passphrase")
	}
	t := sshTarget{user: u.User.Username(), host: u.Hostname(), port: u.Port(), socket: u.Path}
	if t.socket == "/" {
		t.socket = ""
	}
	switch {
	case t.host == "" || strings.HasPrefix(t.host, "-") || strings.HasPrefix(t.user, "-"):
		return sshTarget{}, errors.New("it names no host; write ssh://USER@HOST")
	case u.RawQuery != "" || u.Fragment != "":
		return sshTarget{}, errors.New("it has a query or a fragment; write ssh://USER@HOST")
	}
	return t, nil
}

func (t sshTarget) baseURL() string {
	host := t.host
	if t.port != "" {
		host = net.JoinHostPort(t.host, t.port)
	}
	query := url.Values{}
	if t.user != "" {
		query.Set("user", t.user)
	}
	if t.socket != "" {
		query.Set("socket", t.socket)
	}
	return (&url.URL{Scheme: "docker", Host: host, Path: "/ssh", RawQuery: query.Encode()}).String()
}

// arguments are those of the ssh command. It may ask nobody for a password: there
// is nobody, and it would wait for ever.
func (t sshTarget) arguments() []string {
	args := []string{"-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-T"}
	if t.user != "" {
		args = append(args, "-l", t.user)
	}
	if t.port != "" {
		args = append(args, "-p", t.port)
	}
	args = append(args, "--", t.host, "docker")
	if t.socket != "" {
		args = append(args, "--host", sandbox.ShellLine([]string{"unix://" + t.socket})) // the far shell reads it
	}
	return append(args, "system", "dial-stdio")
}

// dial connects to the engine as the docker command does: its stdio on the other
// machine, through ssh. It returns before ssh has connected; a refusal shows as
// the error of the first read.
func (t sshTarget) dial(ctx context.Context) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("start ssh to %s: %w", t.host, err)
	}
	defer theirs.Close()
	c := &sshConn{Conn: ours, target: t.host, ended: make(chan struct{})}
	c.cmd = exec.Command("ssh", t.arguments()...)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = theirs, theirs, &c.said
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal to ask on, nor its Ctrl-C
	c.cmd.WaitDelay = time.Second
	if err := c.cmd.Start(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("start ssh to %s: %w; install an ssh client", t.host, err)
	}
	go func() {
		defer close(c.ended)
		c.cmd.Wait()
	}()
	return c, nil
}

// socketPair returns two ends of a stream: one of them a connection, with
// deadlines and half-closes that pipes do not have.
func socketPair() (ours net.Conn, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	mine, theirs := os.NewFile(uintptr(fds[0]), "ssh"), os.NewFile(uintptr(fds[1]), "ssh")
	defer mine.Close()
	if ours, err = net.FileConn(mine); err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// sshConn is a connection that an ssh process carries.
type sshConn struct {
	net.Conn
	target string
	cmd    *exec.Cmd
	said   lastWords
	ended  chan struct{} // closed when ssh has been waited for
	once   sync.Once
}

// Read says what ssh said where it ended instead of connecting.
func (c *sshConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.explain(n, err)
}

// Write is told of an ssh that has ended before the first read is.
func (c *sshConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.explain(n, err)
}

func (c *sshConn) explain(n int, err error) error {
	if n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
		return err
	}
	select {
	case <-c.ended:
	case <-time.After(time.Second): // its last words come with its end
	}
	if said := c.said.String(); said != "" {
		return &sshError{c.target, said}
	}
	return err
}

// CloseWrite is what a hijacked connection ends its input by.
func (c *sshConn) CloseWrite() error { return c.Conn.(*net.UnixConn).CloseWrite() }

// Close ends ssh and waits for it.
func (c *sshConn) Close() error {
	var err error
	c.once.Do(func() {
		err = c.Conn.Close()
		c.cmd.Process.Kill()
		<-c.ended
	})
	return err
}

// sshError is an ssh that could not connect, and why.
type sshError struct{ host, said string }

func (e *sshError) Error() string { return fmt.Sprintf("ssh to %s: %s", e.host, e.said) }

// lastWords keeps the last line that is written to it.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

func (w *lastWords) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	w.text = w.text[max(0, len(w.text)-2048):]
	return len(b), nil
}

func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(w.text)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
