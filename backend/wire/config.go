package wire

import (
	"encoding/binary"
)

// GuestConfig is what a provider tells a guest at its start, as JSON in the one
// argument of "glovebox-guest serve --config". It holds no secret.
type GuestConfig struct {
	GuestID   string   `json:"guest_id"`   // the id that the guest proves peers against
	PublicKey []byte   `json:"public_key"` // Ed25519, of the host that made the sandbox
	Socket    string   `json:"socket"`     // path of a unix socket to listen on; or
	ListenFD  int      `json:"listen_fd"`  // an inherited listener, when not 0
	StateDir  string   `json:"state_dir"`  // journal and locks; survives the guest
	LockFile  string   `json:"lock_file"`  // held by the guest for its life, when not ""
	Workdir   string   `json:"workdir"`
	Home      string   `json:"home"`
	User      string   `json:"user"` // "host": the owner of Workdir; "root"; or "UID:GID"
	Tag       Tag      `json:"tag"`
	GuestUID  int      `json:"guest_uid"` // the user that a guest started as uid 0 becomes; 0 means none
	Own       string   `json:"own"`       // a directory of that user's, which the guest closes to others
	Env       []string `json:"env"`       // for every command, after the guest's own
	Relay     string   `json:"relay"`     // address inside to carry connections out from; "" for none

	// Hide lists directories that the guest covers before it starts anything,
	// because its commands run as its own uid: afterwards no path leads there,
	// for a command or for a file request. StateDir and LockFile may lie in one;
	// the guest keeps a descriptor of the state directory. See guest.Hide.
	Hide []string `json:"hide"`

	// ReadOnly lists mounts that the guest makes read-only on the same occasion:
	// those of devices, which can be written to all the same.
	ReadOnly []string `json:"read_only"`

	// Adopted says that the container was there before the guest and outlives it:
	// the guest adds nothing to its files but its own directory, and shares the
	// groups that mark calls with whatever other guests there are.
	Adopted bool `json:"adopted"`

	// LogFile takes what the guest says, where its standard error has no reader.
	LogFile string `json:"log_file"`
}

// Tag is how the guest knows the processes of a call.
type Tag string

// The tags: an own supplementary group per call (docker), an own UTS namespace
// per call (namespace).
const (
	TagGroup Tag = "gid"
	TagUTS   Tag = "uts"
)

// The supplementary groups that TagGroup uses, one per running call.
const (
	FirstTagGroup = 50000
	LastTagGroup  = 59999
)

// A guest that is a container's own takes the groups up to LastOwnTag, in their
// order. Those above are for guests that share a container with it, or with each
// other: each has one of SharedTagSlots ranges to itself.
const (
	LastOwnTag     = 55999
	FirstSharedTag = 56000
	SharedTagCount = 50
	SharedTagSlots = 60
)

// ProofMessage is what a Proof signs.
func ProofMessage(nonce []byte, sandboxID string, version int) []byte {
	m := append([]byte("glovebox-guest\x00"), nonce...)
	m = append(m, sandboxID...)
	return binary.BigEndian.AppendUint32(m, uint32(version))
}
