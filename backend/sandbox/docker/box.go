package docker

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// box is the directory on the host that belongs to one container: its socket
// and journal, its home, and a note of whose it is.
//
//	boxes/<guest id>/            0700, so that nobody else gets to the socket
//	boxes/<guest id>/owner.json  which session and container this is
//	boxes/<guest id>/box/        the guest's: socket and journal
//	boxes/<guest id>/home/       HOME of the commands
type box struct {
	path    string
	guestID string
}

// owner is what a box notes about itself, so that it is found and removed even
// when its container went away behind our back.
type owner struct {
	Session   string `json:"session"`
	Container string `json:"container"` // "" until it was created

	// Adopted is set where the container was there before, and outlives the guest:
	// the box holds this note alone.
	Adopted *adopted `json:"adopted,omitempty"`

	// Serves is set where the image's own server does the work. The container is
	// ours then, and a guest that is Adopted stands beside that server.
	Serves *served `json:"serves,omitempty"`
}

// newGuestID returns an id that was never used.
func newGuestID() string {
	var b [guestIDLen / 2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

const guestIDLen = 32 // hex digits

// box returns the box of a guest. An id that is not one of ours would be a path
// to somewhere else.
func (p *Provider) box(guestID string) (box, error) {
	if !isHex(guestID) {
		return box{}, fmt.Errorf("%q is not the id of a guest", guestID)
	}
	return box{filepath.Join(p.boxes(), guestID), guestID}, nil
}

func (b box) shared() string { return filepath.Join(b.path, "box") }
func (b box) home() string   { return filepath.Join(b.path, "home") }

// makeBox makes a box for commands that run as uid and gid.
func (p *Provider) makeBox(guestID, session string, uid, gid int) (box, error) {
	b, err := p.box(guestID)
	if err != nil {
		return b, err
	}
	if err := os.MkdirAll(p.boxes(), 0o700); err != nil {
		return b, fmt.Errorf("make the container's directory: %w", err)
	}
	err = os.Mkdir(b.path, 0o700)
	if err == nil {
		err = b.note(owner{Session: session})
	}
	if err == nil {
		err = os.Mkdir(b.shared(), 0o700)
	}
	if err == nil {
		// The guest is uid 0 without the right to pass over modes, and on the
		// host possibly neither us nor root. The parent keeps others out.
		err = os.Chmod(b.shared(), 0o777)
	}
	if err == nil {
		err = os.Mkdir(b.home(), 0o755)
	}
	if err == nil && os.Getuid() == 0 { // nobody else gives files away; see homeInside
		err = os.Chown(b.home(), uid, gid)
	}
	if err != nil {
		return b, fmt.Errorf("make the container's directory: %w", err)
	}
	return b, nil
}

func (b box) note(o owner) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	name := filepath.Join(b.path, ownerFile)
	if err := os.WriteFile(name+newSuffix, body, 0o600); err != nil {
		return err
	}
	return os.Rename(name+newSuffix, name) // whole, whenever we die
}

const (
	ownerFile = "owner.json"
	newSuffix = ".new" // of a file that is being written
)

// remove removes the box; one that is not there is no error. The note goes
// last: a process that dies over it leaves a box that is found again.
func (b box) remove() error {
	err := errors.Join(os.RemoveAll(b.shared()), os.RemoveAll(b.home()))
	if err == nil {
		err = os.RemoveAll(b.path)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("remove the container's directory: %w; a user of the image left files there, remove %s as root", err, b.path)
	}
	if err != nil {
		return fmt.Errorf("remove the container's directory: %w", err)
	}
	return nil
}

// makeNote makes a box that holds nothing but its note.
func (b box) makeNote(o owner) error {
	err := os.MkdirAll(b.path, 0o700)
	if err == nil {
		err = b.note(o)
	}
	if err != nil {
		return fmt.Errorf("note the container: %w", err)
	}
	return nil
}

// read returns a box's note; ok is false for one without.
func (b box) read() (o owner, ok bool) {
	body, err := os.ReadFile(filepath.Join(b.path, ownerFile))
	return o, err == nil && json.Unmarshal(body, &o) == nil
}

// eachBox visits the boxes that say whose they are.
func (p *Provider) eachBox(visit func(box, owner)) error {
	entries, err := os.ReadDir(p.boxes())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the containers' directories: %w", err)
	}
	for _, e := range entries {
		b, err := p.box(e.Name())
		if err != nil {
			continue
		}
		if o, ok := b.read(); ok {
			visit(b, o)
		}
	}
	return nil
}

// clearHalfMade removes the boxes that a process died over before they said
// whose they are, or after. They hold nothing else, or stay.
func (p *Provider) clearHalfMade() error {
	entries, err := os.ReadDir(p.boxes())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the containers' directories: %w", err)
	}
	for _, e := range entries {
		b, err := p.box(e.Name())
		if err != nil || len(b.guestID) != guestIDLen { // another wall's
			continue
		}
		if _, err := os.Lstat(filepath.Join(b.path, ownerFile)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		os.Remove(filepath.Join(b.path, ownerFile+newSuffix))
		if err := os.Remove(b.path); err != nil {
			p.log.Warn("a container's directory does not say whose it is", "path", b.path, "err", err)
		}
	}
	return nil
}
