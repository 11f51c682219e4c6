// Package bench measures a Glovebox on this machine, each number beside its
// floor: what the same work costs without Glovebox, measured in the same run and
// in turns with it, so that other load slows both. It prints ratios rather than
// promises; docs/benchmarks.md says what each row means.
//
//	err := bench.Run(ctx, bench.Options{API: client, Report: table.Add, ...})
//
// It drives a server as every screen does, by its API; only where a row is about
// a layer below does it use an Env of that server. What it opened is closed at
// the end, also after a fault or an interrupt.
package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// API is a server as its clients see it.
type API interface {
	// Call makes one request below /api/v1. in and out may be nil.
	Call(ctx context.Context, method, path string, in, out any) error

	// Follow hands over the frames of a session's events socket until handle
	// returns an error, and returns that.
	Follow(ctx context.Context, sessionID string, handle func(httpapi.Frame) error) error

	// Socket opens a socket below /api/v1.
	Socket(ctx context.Context, path string) (*websocket.Conn, error)
}

// Options say what is measured, and with what.
type Options struct {
	Program string   // path of this executable: it is started as a server, and run inside sandboxes
	Dir     string   // empty directory that every user can reach; the caller removes it
	Quick   bool     // few repetitions and little data: a look, not a measurement
	Only    []string // names of measurements; empty means all
	Trees   int      // hostile trees to stop behind each wall; 0 means 100
	Engine  string   // address of the container engine; "" when there is none

	API     API                                                              // the server under test
	Env     func(ctx context.Context, sessionID string) (execenv.Env, error) // of a session of that server
	Connect func(url, dataDir string) (API, error)                           // to a server that was started

	Report func(Row) // is handed each row as soon as it is known
}

// measurement makes the rows of one name.
type measurement struct {
	name string
	run  func(*bench, context.Context)
}

var measurements = []measurement{
	{"size", (*bench).size},
	{"start", (*bench).start},
	{"idle", (*bench).idle},
	{"reconcile", (*bench).reconcile},
	{"allocate", (*bench).allocate},
	{"bash", (*bench).bash},
	{"output", (*bench).output},
	{"first-byte", (*bench).firstByte},
	{"terminal", (*bench).terminal},
	{"network", (*bench).network},
	{"browser", (*bench).browser},
	{"glob", (*bench).glob},
	{"grep", (*bench).grep},
	{"stop", (*bench).stop},
}

// Names lists the measurements in the order in which they run.
func Names() []string {
	names := make([]string, len(measurements))
	for i, m := range measurements {
		names[i] = m.name
	}
	return names
}

// ErrFaults means that some rows hold an error instead of a number.
var ErrFaults = errors.New("some rows could not be measured; their errors are in the table")

// cleanTime bounds what closing everything may take.
const cleanTime = 2 * time.Minute

// Run makes the measurements. A wall or a tool that is missing is said so in its
// rows and is no error; a row that failed is told in the row and by ErrFaults.
func Run(ctx context.Context, o Options) (err error) {
	if o.Trees == 0 {
		o.Trees = 100
	}
	b := &bench{o: o, sessions: map[sandbox.Wall]*session{}}
	if b.engine, err = newEngine(o.Engine); err != nil {
		return err
	}
	var about httpapi.About
	if err := o.API.Call(ctx, "GET", "/about", nil, &about); err != nil {
		return fmt.Errorf("ask the server what there is: %w", err)
	}
	b.walls = slices.DeleteFunc(about.Walls, func(w httpapi.WallInfo) bool { return w.Wall == sandbox.WallLocal })
	b.image = about.DefaultImage
	had, err := b.engine.hasImage(ctx, b.image)
	if err != nil {
		return err
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
		defer cancel()
		err = errors.Join(err, b.close(clean))
		if !had {
			err = errors.Join(err, b.engine.removeImage(clean, b.image))
		}
	}()
	for _, m := range measurements {
		if len(o.Only) > 0 && !slices.Contains(o.Only, m.name) {
			continue
		}
		b.name = m.name
		m.run(b, ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if b.faults {
		return ErrFaults
	}
	return nil
}

// bench is one run.
type bench struct {
	o      Options
	engine *engine
	walls  []httpapi.WallInfo
	image  string

	name     string // of the measurement under way
	faults   bool
	sessions map[sandbox.Wall]*session // one per wall, for rows that do not make their own
}

// many is how often something is done: n times, or few for a quick look.
func (b *bench) many(n, few int) int {
	if b.o.Quick {
		return few
	}
	return n
}

// report finishes a row and hands it over.
func (b *bench) report(r Row, g goal) {
	r.Type, r.Name = "row", b.name
	r.finish(g)
	b.o.Report(r)
}

// fault reports a row that could not be measured.
func (b *bench) fault(ctx context.Context, what string, err error) {
	if ctx.Err() != nil {
		return // interrupted: nothing is wrong with the row
	}
	b.faults = true
	b.o.Report(Row{Type: "row", Name: b.name, What: what, Error: err.Error()})
}

// missing reports a row that this machine has not the means for.
func (b *bench) missing(what, why string) {
	b.o.Report(Row{Type: "row", Name: b.name, What: what, Missing: why})
}

// eachWall measures behind every wall that there is, and names the others.
func (b *bench) eachWall(ctx context.Context, what string, measure func(wall sandbox.Wall) error) {
	for _, w := range b.walls {
		label := fmt.Sprintf("%s, %s", what, w.Wall)
		if !w.Available {
			b.missing(label, w.Detail)
			continue
		}
		if err := measure(w.Wall); err != nil {
			b.fault(ctx, label, err)
		}
	}
}

// close closes the sessions that rows shared.
func (b *bench) close(ctx context.Context) error {
	var errs []error
	for _, s := range b.sessions {
		errs = append(errs, closeSession(ctx, b.o.API, s.id))
	}
	return errors.Join(errs...)
}
