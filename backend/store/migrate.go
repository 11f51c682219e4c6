package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate applies what is missing, each step in a transaction of its own.
func (s *Store) migrate(ctx context.Context) error {
	steps, err := s.provider()
	if err != nil {
		return err
	}
	done, err := steps.Up(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if len(done) > 0 {
		s.log.InfoContext(ctx, "store migrated", "path", s.path, "version", done[len(done)-1].Source.Version)
	}
	return nil
}

func (s *Store) provider() (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectSQLite3, s.writer, files, goose.WithDisableGlobalRegistry(true))
}

// newest returns the version of the last migration that this program has.
func newest() (int64, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		return 0, errors.Join(errors.New("no migrations are built in"), err)
	}
	return goose.NumericComponent(names[len(names)-1]) // Glob sorts
}

// refuseNewer reads the version of the file over a connection that cannot
// change it: the pragmas of an ordinary one already would.
func (s *Store) refuseNewer(ctx context.Context) error {
	known, err := newest()
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", s.uri(url.Values{
		"mode":    {"ro"},
		"_pragma": {fmt.Sprintf("busy_timeout(%d)", s.busy.Milliseconds())},
	}))
	if err != nil {
		return err
	}
	found, err := schemaVersion(ctx, db)
	if err := errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("read its version: %w", err)
	}
	if found > known {
		return fmt.Errorf("%w: it has schema %d and this program knows %d; use that version, or choose another data directory",
			ErrNewerSchema, found, known)
	}
	return nil
}

func schemaVersion(ctx context.Context, db *sql.DB) (int64, error) {
	var table int
	err := db.QueryRowContext(ctx,
		`SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = 'goose_db_version'`).Scan(&table)
	if err != nil || table == 0 {
		return 0, err
	}
	var version int64
	err = db.QueryRowContext(ctx, `SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version`).Scan(&version)
	return version, err
}
