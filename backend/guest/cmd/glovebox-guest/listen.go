//go:build linux

package main

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// standalone is a guest that nobody has made: it listens for hosts that know its
// key, and is reached by its URL.
type standalone struct {
	listen, workdir, id, keyEnv, user, state string
}

func standaloneFlags(flags *flag.FlagSet) *standalone {
	var s standalone
	flags.StringVar(&s.listen, "listen", "", "HOST:PORT, or the path of a unix socket, to listen on without a config")
	flags.StringVar(&s.workdir, "workdir", ".", "with --listen: the directory to work in")
	flags.StringVar(&s.id, "id", "", "with --listen: what the guest calls itself (the host name)")
	flags.StringVar(&s.keyEnv, "key-env", "GLOVEBOX_GUEST_KEY", "with --listen: the variable that holds the key")
	flags.StringVar(&s.user, "user", "host", "with --listen: host, root or UID:GID")
	flags.StringVar(&s.state, "state", "", "with --listen: the directory of what must survive the guest")
	return &s
}

// config opens the listener and returns the config of a guest on it. The key is
// taken out of the environment: commands inherit that.
func (s *standalone) config(stdout io.Writer) (cfg wire.GuestConfig, err error) {
	key := os.Getenv(s.keyEnv)
	os.Unsetenv(s.keyEnv)
	if s.workdir, err = filepath.Abs(s.workdir); err != nil {
		return cfg, err
	}
	if s.id == "" {
		if s.id, err = os.Hostname(); err != nil {
			return cfg, fmt.Errorf("name the guest: %w; give --id", err)
		}
	}
	if strings.ContainsFunc(s.id, func(r rune) bool { return r <= ' ' || r == '#' || r == 0x7f }) {
		return cfg, fmt.Errorf("--id %q: an address cannot hold it", s.id)
	}
	if s.state == "" {
		s.state = filepath.Join(os.TempDir(), fmt.Sprintf("glovebox-guest-%d-%s", os.Getuid(), filepath.Base(s.id)))
	}
	if err := os.MkdirAll(s.state, 0o700); err != nil {
		return cfg, fmt.Errorf("make the state directory: %w; give --state", err)
	}
	cfg = wire.GuestConfig{
		GuestID: s.id, PublicKey: client.DeriveKey([]byte(key), s.id).Public().(ed25519.PublicKey),
		StateDir: s.state, LockFile: filepath.Join(s.state, "lock"),
		Workdir: s.workdir, Home: cmp.Or(os.Getenv("HOME"), "/tmp"), User: s.user, Tag: wire.TagGroup,
	}
	if filepath.IsAbs(s.listen) {
		cfg.Socket = s.listen
		_, err := fmt.Fprintf(stdout, "listening on %s\n", s.listen)
		return cfg, err
	}
	if err := s.mayListen(key); err != nil {
		return cfg, err
	}
	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		return cfg, fmt.Errorf("listen: %w", err)
	}
	defer l.Close() // the guest has the descriptor
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		return cfg, fmt.Errorf("listen: %w", err)
	}
	cfg.ListenFD = int(f.Fd())
	standing = f
	_, err = fmt.Fprintf(stdout, "listening on http://%s\n", l.Addr())
	return cfg, err
}

// standing keeps the listener's file from being collected, and closed with it,
// before the guest has taken its descriptor.
//
//lint:ignore U1000 to hold it is its use
var standing *os.File

// mayListen refuses a listener that others than this machine can reach, and that
// would take anybody's word.
func (s *standalone) mayListen(key string) error {
	host, _, err := net.SplitHostPort(s.listen)
	if err != nil {
		return fmt.Errorf("--listen %q: want HOST:PORT or the path of a socket", s.listen)
	}
	ip, err := netip.ParseAddr(host)
	if key != "" || host == "localhost" || err == nil && ip.IsLoopback() {
		return nil
	}
	return errors.New("a listener that is not loopback needs a key: set the variable " + s.keyEnv + " to a long random text, here and where glovebox runs")
}
