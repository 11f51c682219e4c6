package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Setting returns the value of a setting, and whether it was ever set.
func (s *Store) Setting(ctx context.Context, key string) (value string, ok bool, err error) {
	err = s.reader.QueryRowContext(ctx, `SELECT value FROM settings WHERE key = ?`, key).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read setting %s: %w", key, explain(ctx, err))
	}
	return value, true, nil
}

// SetSetting sets a setting. Settings hold no secrets.
func (s *Store) SetSetting(ctx context.Context, key, value string) error {
	err := s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO settings (key, value) VALUES (?, ?)
			ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
		return err
	})
	if err != nil {
		return fmt.Errorf("write setting %s: %w", key, err)
	}
	return nil
}
