package lifetime

import (
	"context"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Ledger keeps the rows of what we own. Its methods may be called from several
// goroutines at once; a row that InsertRecord or UpdateRecord has returned for
// survives the process.
type Ledger interface {
	// InsertRecord adds a row and returns its id.
	InsertRecord(ctx context.Context, r sandbox.Record) (int64, error)

	// UpdateRecord replaces the row with r's id.
	UpdateRecord(ctx context.Context, r sandbox.Record) error

	// LiveRecord returns the newest row of a root task that is neither released
	// nor failed, if there is one.
	LiveRecord(ctx context.Context, rootTaskID string) (sandbox.Record, bool, error)

	// Records returns every row, in any order.
	Records(ctx context.Context) ([]sandbox.Record, error)
}
