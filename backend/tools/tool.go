package tools

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// Tool is one thing that a model can ask for. A Tool has no state of its own
// and may be used from several goroutines.
type Tool interface {
	Definition() llm.Tool
	Risk() Risk

	// Run makes one call. It returns within about a second of the end of ctx,
	// with a Result of status interrupted.
	//
	// An error means that there is no result to record: it wraps
	// execenv.ErrFenced (another take-up drives the task; stop at once) or
	// execenv.ErrUnreachable (nothing is known of the call; ask again later
	// with the same ID). Everything else is a Result.
	Run(ctx context.Context, c Call) (Result, error)
}

// Risk says whether a call can do harm.
type Risk string

// The risks.
const (
	RiskLow  Risk = "low"  // it only looks
	RiskHigh Risk = "high" // it changes files or runs commands
)

// Danger says what makes a tool one of high risk, in words that go after its name.
func Danger(t Tool) string {
	if d, ok := t.(interface{ Danger() string }); ok {
		return d.Danger()
	}
	return "can change files or run commands"
}

// Call is one call of a tool.
type Call struct {
	ID    string
	Boot  string // not empty on a take-up: the guest's boot in which the call was started
	Input json.RawMessage
	Env   execenv.Env

	// Known returns the hash of a file as the agent last saw it; nil knows of
	// none. The hash is "" for a file that was too large to be hashed.
	Known func(path string) (hash string, ok bool)

	// Live receives output while it comes; it may be nil.
	Live func(execenv.Chunk)

	// Browser opens the sandbox's browser as the agent uses it; nil where there is
	// none.
	Browser func(ctx context.Context) (browser.Backend, error)
}

func (c Call) effect() execenv.Call { return execenv.Call{ID: c.ID, Boot: c.Boot} }

func (c Call) known(path string) (string, bool) {
	if c.Known == nil {
		return "", false
	}
	return c.Known(path)
}

// abs returns a model's path as an absolute one: relative paths start at the
// workspace.
func (c Call) abs(p string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join(c.Env.Where().Workdir, p)
}

// reader is what a tool that asks nobody looks at files by: all of a place with a
// wall around it, and on the host itself the workspace alone, wherever links lead.
type reader interface {
	ReadFile(ctx context.Context, r execenv.ReadRequest) (execenv.ReadResult, error)
	Glob(ctx context.Context, r execenv.GlobRequest) (execenv.GlobResult, error)
	Grep(ctx context.Context, r execenv.GrepRequest) (execenv.GrepResult, error)
}

func (c Call) reader() reader {
	if e, ok := c.Env.(execenv.Fenced); ok {
		if view, ok := e.View().(reader); ok {
			return view
		}
	}
	return c.Env
}

// Result is how a call ended. Text and display strings are valid UTF-8.
type Result struct {
	Status  task.CallStatus
	NotMade bool                // nothing of the call has reached its place; false where that is not known
	Text    string              // for the model
	Images  []llm.Image         // for a model that can see
	Display any                 // for the screen: the tool's display struct, or nil
	Files   map[string]string   // path to hash: what the agent knows of them from now on
	Kill    *execenv.KillReport // what a timeout or Stop ended
	Took    time.Duration       // as the place measured it; 0 when it did not
}

// ReadOnly reports whether a tool changes nothing, so that its calls may run
// side by side and be repeated after a crash.
func ReadOnly(t Tool) bool {
	r, ok := t.(interface{ ReadOnly() bool })
	return ok && r.ReadOnly()
}

// Kept reports whether a place may keep an account of a tool's calls, by which one
// that was cut off is found again under its id. Where it does not, such a call is
// not asked for again, and its outcome stays unknown.
func Kept(t Tool) bool {
	k, ok := t.(interface{ Kept() bool })
	return !ok || k.Kept()
}

// Asker is a Tool whose call is a question to the person. It is never run: the
// turn waits for the answer, however long that takes, and the answer is the
// call's result.
type Asker interface {
	Tool

	// Question reads a call's input. Its error is the call's result.
	Question(input json.RawMessage) (task.Question, error)
}

// Set is the tools of one agent, in a fixed order.
type Set struct {
	tools  []Tool
	byName map[string]Tool
}

// NewSet returns a Set that keeps the order of tools. It panics when two have
// the same name.
func NewSet(tools ...Tool) *Set {
	s := &Set{tools: tools, byName: make(map[string]Tool, len(tools))}
	for _, t := range tools {
		name := t.Definition().Name
		if _, ok := s.byName[name]; ok {
			panic("two tools are called " + name)
		}
		s.byName[name] = t
	}
	return s
}

// Standard returns the tools that every agent gets.
func Standard() *Set {
	return NewSet(NewRead(), NewWrite(), NewEdit(), NewGlob(), NewGrep(), NewBash(), NewAskUser())
}

// Only returns a Set of the named ones of s, in the order of s. It panics when s
// has not all of them.
func (s *Set) Only(names ...string) *Set {
	var some []Tool
	for _, t := range s.tools {
		if slices.Contains(names, t.Definition().Name) {
			some = append(some, t)
		}
	}
	if len(some) != len(names) {
		panic("not all of these are tools: " + strings.Join(names, ", "))
	}
	return NewSet(some...)
}

// With returns a Set of the tools of s and those after them.
func (s *Set) With(more ...Tool) *Set {
	return NewSet(slices.Concat(s.tools, more)...)
}

// Definitions describes the tools to a model, always in the same order, so that
// a provider's prompt cache holds.
func (s *Set) Definitions() []llm.Tool {
	defs := make([]llm.Tool, len(s.tools))
	for i, t := range s.tools {
		defs[i] = t.Definition()
	}
	return defs
}

// Lookup returns the tool of a name.
func (s *Set) Lookup(name string) (Tool, bool) {
	t, ok := s.byName[name]
	return t, ok
}

// Names returns the names of the tools in order.
func (s *Set) Names() []string {
	names := make([]string, len(s.tools))
	for i, t := range s.tools {
		names[i] = t.Definition().Name
	}
	return names
}
