package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
)

// maxInline is the largest body that is kept in its event's row. Larger ones
// would make every scan of the log read them.
const maxInline = 4 << 10

// insertBlob stores data under its hash, once.
func insertBlob(ctx context.Context, tx *sql.Tx, data []byte) (hash string, err error) {
	sum := sha256.Sum256(data)
	hash = hex.EncodeToString(sum[:])
	_, err = tx.ExecContext(ctx, `INSERT INTO blobs (hash, data) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING`, hash, data)
	return hash, err
}

// CollectBlobs removes the blobs that no event refers to and returns how many
// there were.
func (s *Store) CollectBlobs(ctx context.Context) (n int, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		r, err := tx.ExecContext(ctx, `
			DELETE FROM blobs
			WHERE NOT EXISTS (SELECT 1 FROM events WHERE events.blob = blobs.hash)`)
		if err != nil {
			return err
		}
		removed, err := r.RowsAffected()
		n = int(removed)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("collect blobs: %w", err)
	}
	return n, nil
}
