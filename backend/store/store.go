// Package store keeps the truth in one SQLite file: the append-only log of
// [task.Event]s, the ledger of sandboxes and a few settings.
//
// [Store.Append] is the only write that matters. A reader subscribes to a bell
// first, then asks [Store.Events] for everything after the seq it has, and asks
// again when the bell rings; [Store.State] is the fold of one task's events.
//
// There is one writing connection, whose transactions begin IMMEDIATE so that
// none ever has to upgrade a lock, and a small pool of connections that cannot
// write. The package is the only one that touches the file: opening and closing
// it by other means in this process would drop the locks that SQLite holds on
// it, which is why a copy is made by [Store.Backup] and a size read by stat.
//
// A [Lock] makes one process the owner of a data directory.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // registers the driver
)

// fileName is the database's name in the data directory.
const fileName = "glovebox.db"

// defaultBusyTimeout is long enough for any transaction of ours and short
// enough for a person to wait for an answer.
const defaultBusyTimeout = 5 * time.Second

// readers bounds the pool of reading connections: more would only share the
// same few cores.
const readers = 4

// Options are what a Store may be given. The zero value is useful.
type Options struct {
	Log         *slog.Logger
	BusyTimeout time.Duration // how long to wait for another program's lock; 5 s when zero
	Bell        func()        // called after every Append that wrote; must not block
}

// Store is an open store. Its methods may be called from several goroutines.
type Store struct {
	log  *slog.Logger
	bell func()
	path string
	busy time.Duration

	writer *sql.DB // one connection
	reader *sql.DB // cannot write

	// turn lets writers in one by one, in the order in which they came: the pool
	// of database/sql would let any of them in, and some would starve. Its
	// capacity is one, for the one that writes.
	turn    chan struct{}
	blocked bool // guarded by turn: the last transaction found the file locked

	closing  sync.Once
	closeErr error
}

// Open opens the store in dir and brings its schema up to date; both are made
// when missing. A schema that a newer program wrote is left untouched and
// refused with ErrNewerSchema.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.BusyTimeout <= 0 {
		o.BusyTimeout = defaultBusyTimeout
	}
	if o.Bell == nil {
		o.Bell = func() {}
	}
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(filepath.Join(dir, fileName))
	if err != nil {
		return nil, fmt.Errorf("locate the store: %w", err)
	}
	s := &Store{log: o.Log.With("component", "store"), bell: o.Bell, path: path, busy: o.BusyTimeout, turn: make(chan struct{}, 1)}
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("open the store %s: %w", path, explain(ctx, err))
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if err := makeFile(s.path); err != nil {
		return err
	}
	if err := s.refuseNewer(ctx); err != nil {
		return err
	}
	var err error
	if s.writer, err = sql.Open("sqlite", s.dsn("")); err != nil {
		return err
	}
	s.writer.SetMaxOpenConns(1)
	if err := s.migrate(ctx); err != nil {
		return errors.Join(err, s.writer.Close())
	}
	if s.reader, err = sql.Open("sqlite", s.dsn("query_only(1)")); err != nil {
		return errors.Join(err, s.writer.Close())
	}
	s.reader.SetMaxOpenConns(readers)
	s.reader.SetMaxIdleConns(readers)
	return nil
}

// Close moves what the write-ahead log holds into the file and closes it. It
// waits for calls under way; later ones fail.
func (s *Store) Close() error {
	s.closing.Do(func() {
		// The readers go first, so that none is in the way of emptying the log.
		s.closeErr = errors.Join(s.reader.Close(), s.checkpoint(), s.writer.Close())
	})
	return s.closeErr
}

func (s *Store) checkpoint() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.busy)
	defer cancel()
	if _, err := s.writer.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		return fmt.Errorf("empty the write-ahead log: %w", explain(ctx, err))
	}
	return nil
}

// dsn names the file with the pragmas that every connection of a pool needs:
// set once by a statement, they would be missing on the next connection that
// the pool opens.
func (s *Store) dsn(extra string) string {
	q := url.Values{"_txlock": {"immediate"}}
	for _, p := range []string{
		fmt.Sprintf("busy_timeout(%d)", s.busy.Milliseconds()),
		"foreign_keys(1)",
		"journal_mode(WAL)",
		"synchronous(NORMAL)",
		extra,
	} {
		if p != "" {
			q.Add("_pragma", p)
		}
	}
	return s.uri(q)
}

func (s *Store) uri(q url.Values) string {
	u := url.URL{Scheme: "file", Path: s.path, RawQuery: q.Encode()}
	return u.String()
}

// write runs fn in one transaction that holds the write lock from its start.
func (s *Store) write(ctx context.Context, fn func(*sql.Tx) error) error {
	began := time.Now()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.blocked && time.Since(began) >= s.busy {
		// Whoever stood in line for the whole timeout while another program held
		// the lock is told now, and does not wait as long once more.
		return ErrBusy
	}
	tx, err := s.writer.BeginTx(ctx, nil)
	err = explain(ctx, err)
	s.blocked = errors.Is(err, ErrBusy)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return errors.Join(explain(ctx, err), ended(tx.Rollback()))
	}
	return explain(ctx, tx.Commit())
}

// Exists reports whether dir holds a store. One that cannot be looked at may.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, fileName))
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
}

// ended drops the error of rolling back a transaction that its context or
// SQLite itself has rolled back before.
func ended(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// makeDir makes the data directory for its owner alone. One that root makes can
// be passed through, because a sandbox's own user has to reach its socket there.
func makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	if err := os.Chmod(dir, mode); err != nil { // whatever the umask was
		return fmt.Errorf("make the data directory: %w", err)
	}
	return nil
}

// makeFile makes an empty file with the mode that SQLite then copies to the
// files beside it. An existing one is not opened, only set to that mode.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.Chmod(path, 0o600)
	}
	if err != nil {
		return err
	}
	return f.Close()
}
