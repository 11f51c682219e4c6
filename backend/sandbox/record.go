package sandbox

import "time"

// Record is one row of the ledger of what we own. It is written before the
// effect that it announces, so that after a crash nothing is unaccounted for.
type Record struct {
	ID         int64     `json:"id"`
	RootTaskID string    `json:"root_task_id"`
	Wall       Wall      `json:"wall"`
	Ref        Ref       `json:"ref"`      // "" until the provider has made it
	ShortID    string    `json:"short_id"` // "" until then
	Workdir    string    `json:"workdir"`
	Spec       Spec      `json:"spec"`
	State      State     `json:"state"`
	Cause      string    `json:"cause"`
	CreatedAt  time.Time `json:"created_at"`
	UpdatedAt  time.Time `json:"updated_at"`
}
