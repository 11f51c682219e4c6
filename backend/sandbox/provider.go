package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// Errors that every provider wraps. Callers match them with errors.Is.
var (
	ErrSpec        = errors.New("invalid sandbox spec")
	ErrRef         = errors.New("invalid sandbox reference")
	ErrGone        = errors.New("the sandbox is gone")        // removed; nothing to attach to
	ErrStopped     = errors.New("the sandbox is stopped")     // there, and could not be started
	ErrUnreachable = errors.New("the sandbox is unreachable") // engine or guest silent; the binding holds
	ErrForeign     = errors.New("the sandbox is not ours")    // it lacks our labels, or has another's
	ErrNoWall      = errors.New("no wall is available")       // neither an engine nor bubblewrap
	ErrUnsupported = errors.New("not supported behind this wall")

	// ErrImageInUse refuses to remove an image that something is made of.
	ErrImageInUse = errors.New("the image is in use")

	// ErrUnauthorized is a remote sandbox that wants another key. It comes with
	// ErrUnreachable where the binding holds.
	ErrUnauthorized = errors.New("the key was refused")
)

// WallError says why one wall is not available. It is ErrNoWall: whether another
// is, whoever has them all can say.
type WallError struct {
	Wall Wall
	Err  error // says what to do
}

func (e *WallError) Error() string {
	return fmt.Sprintf("the %s wall is not available: %v", e.Wall, e.Err)
}
func (e *WallError) Unwrap() error { return e.Err }

// Is reports that it is ErrNoWall.
func (e *WallError) Is(target error) bool { return target == ErrNoWall }

// Prober is a Provider that looks whether its wall can be had at all, by using it.
// The error wraps ErrNoWall where it cannot.
type Prober interface {
	Probe(ctx context.Context) error
}

// DialFunc opens one connection to a sandbox's guest.
type DialFunc func(ctx context.Context) (net.Conn, error)

// Handle is a live address of a sandbox. It is never stored: [Handle.Ref] is.
type Handle struct {
	BaseURL   string
	SandboxID string
	ShortID   string // the hostname inside, and what people are shown
	GuestID   string // the id that the guest greets with
	Workdir   string
	Auth      Auth
	Dial      DialFunc // to its guest; nil where there is none

	// Wire is how a sandbox is spoken to whose own server does the work: WireAIO.
	// A guest may be beside that server all the same.
	Wire string
	// Server is that server's URL where it is not BaseURL, as ServerDial's
	// connections lead to it.
	Server     string
	ServerDial DialFunc
	// Greet says whether that server answers.
	Greet func(ctx context.Context) error
	// Caveat says in plain words what does not hold in it.
	Caveat string
}

// WireAIO is the Wire of a sandbox that serves the AIO Sandbox API.
const WireAIO = "aio"

// Ref returns the durable address of the handle.
func (h Handle) Ref() (Ref, error) { return EncodeRef(h.BaseURL, h.SandboxID) }

// Auth yields the headers that a request to a sandbox carries. It is asked for
// every request, so that a credential is never kept.
type Auth interface {
	Headers(ctx context.Context) (http.Header, error)
}

// StaticAPIKey reads a key from the environment variable EnvName at every
// request and sends it as HeaderName. An unset variable means no header.
type StaticAPIKey struct {
	EnvName    string // SANDBOX_API_KEY when empty
	HeaderName string // X-AIO-API-Key when empty
}

// What a StaticAPIKey takes where it names nothing.
const (
	DefaultKeyEnv    = "SANDBOX_API_KEY"
	DefaultKeyHeader = "X-AIO-API-Key"
)

// Headers implements Auth.
func (k StaticAPIKey) Headers(context.Context) (http.Header, error) {
	h := http.Header{}
	if v := os.Getenv(k.Variable()); v != "" {
		h.Set(cmp.Or(k.HeaderName, DefaultKeyHeader), v)
	}
	return h, nil
}

// Variable returns the name of the variable that holds the key.
func (k StaticAPIKey) Variable() string { return cmp.Or(k.EnvName, DefaultKeyEnv) }

// KeyAdvice says which variable a key that was refused, or is missing, is read
// from.
func KeyAdvice(a Auth) string {
	k, ok := a.(interface{ Variable() string })
	if !ok {
		return "it wants a key"
	}
	if os.Getenv(k.Variable()) == "" {
		return "it wants a key: set the variable " + k.Variable() + " where glovebox runs"
	}
	return "it does not take the key in the variable " + k.Variable()
}

// RemoteConfig names one sandbox that is there already and is shared by all who
// use it: a guest, or a server of the AIO Sandbox API, by URL.
type RemoteConfig struct {
	BaseURL   string
	APIKeyEnv string // DefaultKeyEnv when empty
	Header    string // DefaultKeyHeader when empty
	Workdir   string // what the other side says when empty, else DefaultWorkdir
}

// Auth returns how requests to it are authorized.
func (c RemoteConfig) Auth() StaticAPIKey {
	return StaticAPIKey{EnvName: c.APIKeyEnv, HeaderName: c.Header}
}

// Provider makes, finds and removes sandboxes. Its methods may be called from
// several goroutines at once; calls for different root tasks do not wait for
// each other.
type Provider interface {
	// Allocate makes a sandbox for a root task and returns when its guest is
	// ready. The returned handle's sandbox belongs to that root task until
	// Release. On any error, a ctx that ends included, what was made is removed
	// before Allocate returns. A fault of the spec wraps ErrSpec and is found
	// before anything is made.
	Allocate(ctx context.Context, rootTaskID string, spec Spec) (Handle, error)

	// Attach reconnects to the sandbox that ref names and starts it when it is
	// stopped, paused or only created. It never makes one. The error wraps
	// ErrGone, ErrStopped, ErrUnreachable, ErrForeign or ErrRef.
	Attach(ctx context.Context, ref Ref) (Handle, error)

	// Release removes every sandbox, of whatever generation, that was made for
	// a root task, with all that belongs to it. It is idempotent: an unknown
	// task is no error.
	Release(ctx context.Context, rootTaskID string) error
}

// Checker finds the faults of a spec that only the provider can know (an
// unknown image, a missing directory, a resource that does not parse) and makes
// nothing. Its error wraps ErrSpec. Allocate checks the same.
type Checker interface {
	Check(ctx context.Context, spec Spec) error
}

// Found is a sandbox that a Lister or Inspector found.
type Found struct {
	Ref        Ref
	ShortID    string
	RootTaskID string // "" when nobody can say for sure
	Instance   string // the instance that made it
	Condition  Condition
	Image      string
	CreatedAt  time.Time
}

// Lister lists the sandboxes that this instance has made, running or not.
type Lister interface {
	List(ctx context.Context) ([]Found, error)
}

// Inspector reads the condition of one sandbox back from the engine or the
// kernel. A sandbox that is not there is not an error: its state is StateLost.
type Inspector interface {
	Inspect(ctx context.Context, ref Ref) (Condition, error)
}

// Borrower is a Provider that only lends: what it hands out was there before and
// is shared. Its Release changes nothing, however many generations there were.
type Borrower interface {
	Borrows()
}

// Reacher is a Provider whose sandboxes may live where it does not look now, as on
// the engine of another context. Reaches asks nobody; its error wraps
// ErrUnreachable for a ref of elsewhere.
type Reacher interface {
	Reaches(ref Ref) error
}

// Starter and Stopper start and stop a sandbox and keep its contents.
type Starter interface {
	Start(ctx context.Context, ref Ref) (Handle, error)
}

// Stopper is described at Starter.
type Stopper interface {
	Stop(ctx context.Context, ref Ref) error
}

// Remover removes one sandbox by its address, whatever its root task: the
// reaper's verb. A missing sandbox is no error.
type Remover interface {
	Remove(ctx context.Context, ref Ref) error
}

// Watcher reports changes that it did not cause as well as those it did. Watch
// blocks until ctx ends and calls report from one goroutine; after every
// reconnect it calls relist first, because changes may have been missed.
type Watcher interface {
	Watch(ctx context.Context, report func(Change), relist func()) error
}

// Change is one observed change of a sandbox.
type Change struct {
	Ref       Ref
	Condition Condition
}

// Describer says what a live sandbox is, for the container card: facts read
// back from the engine or kernel, never from the spec.
type Describer interface {
	Describe(ctx context.Context, ref Ref) (Description, error)
}

// Description is what a Describer read back.
type Description struct {
	ID          string            `json:"id"`
	ShortID     string            `json:"short_id"`
	Name        string            `json:"name"`
	Image       string            `json:"image"`
	ImageDigest string            `json:"image_digest"`
	StartedAt   time.Time         `json:"started_at"`
	Mounts      []Mount           `json:"mounts"`
	Limits      map[string]string `json:"limits"`
	NotEnforced []string          `json:"not_enforced"` // limits that were asked for and are not enforced
	Network     string            `json:"network"`
	User        string            `json:"user"`
	Notes       []string          `json:"notes"` // what holds only in part here, in plain words
	Commands    []HandCommand     `json:"commands"`
}

// HandCommand is a command that a person can run in a terminal of the host to do
// by hand what Glovebox does. It holds no secret.
type HandCommand struct {
	Does string `json:"does"` // "make", "shell", "logs", "stop", "remove"
	Text string `json:"text"` // quoted for a POSIX shell
}

// Logger yields the last lines that a sandbox's own process wrote.
type Logger interface {
	Logs(ctx context.Context, ref Ref, tail int) (io.ReadCloser, error)
}

// HostMounter is a Provider that says whether directories of this machine can be
// mounted into its sandboxes. Where they cannot, a Spec needs no workspace: the
// sandbox has one of its own. Without this ability they can.
type HostMounter interface {
	MountsHost() bool
}

// Adopter binds a root task to a place that was there before it: a running
// container of the engine, ours or another's, by its name or id. The guest is put
// into it and started; Release and Remove take the guest out again, with what it
// started and left, and leave the place as it was found. Several root tasks may
// have a guest in one place.
type Adopter interface {
	// Resolve returns the full id of the place that name names, and what it is.
	// The error wraps ErrGone when there is none, and ErrForeign when another
	// instance has made it.
	Resolve(ctx context.Context, name string) (Place, error)

	// Adopt binds a root task to spec.Adopt. On any error what was put in is
	// taken out again. The error says what about the place is in the way.
	Adopt(ctx context.Context, rootTaskID string, spec Spec, report func(Step)) (Handle, error)
}

// Place is a container of an engine, whoever made it.
type Place struct {
	ID         string // full
	Name       string
	Image      string
	Workdir    string
	Instance   string   // of the glovebox that made it, "" for a stranger's
	RootTaskID string   // that it was made for, "" for a stranger's
	Adopted    []string // root tasks of this instance that have a guest in it
	Condition  Condition
	Ports      []string // "127.0.0.1:8080->80/tcp"
	CreatedAt  time.Time
	Network    NetworkMode
}

// Overseer shows everything that runs beside our own sandboxes, and starts and
// stops it on a person's word.
type Overseer interface {
	Places(ctx context.Context) ([]Place, error)

	// Changes calls changed after every change of any place, from one goroutine,
	// until ctx ends, and after each reconnect.
	Changes(ctx context.Context, changed func()) error

	StartPlace(ctx context.Context, id string) error
	StopPlace(ctx context.Context, id string) error
	RemovePlace(ctx context.Context, id string) error // of this instance alone
	PlaceLogs(ctx context.Context, id string, tail int) (string, error)
}

// Step is one step of an Allocate, in the order they happen: "create", "start"
// and "guest ready", each told when it is done. What may take long comes before
// them and is told when it begins: "pulling IMAGE" again and again, with how far
// it has come, at least once a second.
type Step struct {
	Name   string
	At     time.Time // of its end, or of the beginning of what takes long: the same each time
	Detail string    // for people: "2 of 5 layers", or ""

	Bytes          int64 // that have come
	Total          int64 // of all; 0 while it is not known
	BytesPerSecond int64 // lately; 0 before there is a measure
}

// Progress is a Provider that tells the steps of an Allocate while it runs.
// report is called from one goroutine at a time and must not block.
type Progress interface {
	AllocateWithProgress(ctx context.Context, rootTaskID string, spec Spec, report func(Step)) (Handle, error)
}
