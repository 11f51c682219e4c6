package sandbox

import "time"

// State is what a sandbox is, as the engine or the kernel says.
type State string

// The states of a sandbox's life. The ledger stores them; a Condition carries
// one that was observed.
const (
	StateAllocating  State = "allocating"
	StateReady       State = "ready"
	StateStopped     State = "stopped"
	StatePaused      State = "paused"
	StateUnreachable State = "unreachable"
	StateReleasing   State = "releasing"
	StateReleased    State = "released"
	StateDetached    State = "detached"
	StateFailed      State = "failed"
	StateLost        State = "lost"
)

// Causes that explain a state.
const (
	CauseByHand      = "by hand"
	CauseKilled      = "killed"
	CauseOutOfMemory = "out of memory"
	CauseExited      = "exited"
	CauseRemoved     = "removed"
	CauseForeign     = "its place is another's" // what its address names now is not ours
	CauseEngine      = "engine not answering"
	CauseServer      = "the other side is not answering"
	CauseKey         = "the key was refused"
	CauseIdle        = "idle"
	CauseCalledOff   = "stopped before it was ready" // of one that failed: nothing went wrong with it
	CauseUnseen      = "nobody saw why"
)

// Condition is an observed state: what, why, when, and who said so. The wire
// never carries a state without its age.
type Condition struct {
	Value      State     `json:"value"`
	Cause      string    `json:"cause"`
	ObservedAt time.Time `json:"observed_at"`
	Source     string    `json:"source"` // "engine", "kernel", "guest", "server", "ledger"
}

// Live reports whether calls can be made in this state.
func (s State) Live() bool { return s == StateReady }

// Held reports whether there is a sandbox in this state, running or not.
func (s State) Held() bool {
	switch s {
	case StateReady, StateStopped, StatePaused, StateUnreachable:
		return true
	}
	return false
}

// Owned reports whether a sandbox in this state still holds something of ours
// that a release has to remove.
func (s State) Owned() bool {
	switch s {
	case StateReleased, StateDetached, StateFailed, "":
		return false
	}
	return true
}
