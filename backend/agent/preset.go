package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// Preset is a kind of agent: what it may use, and what it is told of its work.
type Preset struct {
	Name        string
	Description string   // for people
	tools       []string // nil for all
	agents      []string // the subagents that it may hand work to
	depth       int      // how deep below the session's own agent it works
	browser     browserUse
	work        string // the part of the system prompt that says how to work
}

// browserUse says what an agent has to do with the sandbox's browser.
type browserUse int

const (
	asTold browserUse = iota // it has that where its task's plugins say so
	never
	always
)

// MainPreset is the name of the preset of a session that names none, WebPreset
// that of the subagent which alone has the browser.
const (
	MainPreset = "main"
	WebPreset  = "web"
)

// looking are the tools that change nothing.
var looking = []string{"Read", "Glob", "Grep", "AskUser"}

// helpers are the subagents that every agent which has any may use.
var helpers = []string{"general-purpose", "explore", "plan"}

// leavePages is the one rule by which the work of an agent that has the subagent
// web differs from that of one which has not.
const leavePages = "Leave work on web pages to the subagent web: it has the sandbox's browser, and you have not."

var (
	mainAgent = Preset{
		Name:        MainPreset,
		Description: "Does the work: reads, edits and runs commands.",
		agents:      helpers,
		work: `Look before you change: read what you are about to edit, and search for who else depends on it. Work in small steps, and check each by running it. Ask for independent reads and searches together in one answer: they run side by side. A command that is still running at its timeout is killed with everything it started, so give long ones a longer timeout.
Do what was asked and no more. When something fails, find out why before you try something else. At the end say briefly what you did, how you checked it, and what does not work.`,
	}
	explore = Preset{
		Name:        "explore",
		Description: "Finds things out: reads and searches, changes nothing.",
		tools:       looking,
		work: `You find things out and change nothing: there is no tool here that could. Start wide with searches, ask for independent ones together in one answer, then read what matters, whole where it matters most.
Answer the question that was asked, with the paths and line numbers that show it. Say what you did not find, and what you only assume.`,
	}
	plan = Preset{
		Name:        "plan",
		Description: "Thinks a change through and writes down its steps, changes nothing.",
		tools:       looking,
		work: `You plan a change and do not make it: there is no tool here that could. First learn how the code at hand does such things: read it, search for its callers, its tests and its conventions. Ask for independent reads together in one answer.
Then write the plan: what will be different afterwards, the steps in an order in which each can be checked, the files that each touches, how it is checked, and what may go wrong. Where there is a real choice, name the alternatives and take one. Ask only what the code cannot answer.`,
	}
	generalPurpose = Preset{
		Name:        "general-purpose",
		Description: "Does a piece of work by itself: reads, edits and runs commands.",
		browser:     never,
		work: `Another agent has handed you a piece of work. It sees nothing of what you do but your last answer, and cannot tell you more than it has.
Look before you change, work in small steps, and check each by running it. Do what was asked and no more. Your last answer says what you found or did, with paths, how you checked it, and what does not work.`,
	}
	web = Preset{
		Name:        WebPreset,
		Description: "Works with web pages in the sandbox's browser: opens, reads, clicks and fills them in. Several of them take turns.",
		tools:       []string{"Read", "Write", "Glob", "Grep", "Bash", "AskUser"},
		browser:     always,
		work: `Another agent has handed you work on web pages. It sees nothing of what you do but your last answer, and cannot tell you more than it has.
Do what was asked and no more. Your last answer says what you found or did, with the addresses, what you could not do, and where the files are that you saved.`,
	}
)

// SandboxBrowserOptions returns the preset of a session whose agent works as main
// does and has one more subagent, web, which alone has the sandbox's browser.
func SandboxBrowserOptions() Preset {
	p := mainAgent
	p.Name = "browser"
	p.Description = "Does the work as main does, and leaves web pages to a subagent that has the sandbox's browser."
	p.agents = slices.Concat(helpers, []string{web.Name})
	p.browser = never
	p.work += "\n" + leavePages
	return p
}

// Presets returns the presets of sessions, the default first.
func Presets() []Preset { return []Preset{mainAgent, SandboxBrowserOptions(), explore, plan} }

// PresetOf returns a session's preset by its name; "" is the default.
func PresetOf(name string) (Preset, error) {
	if name == "" {
		name = MainPreset
	}
	return named(name, Presets())
}

// named returns the preset of a name among some.
func named(name string, presets []Preset) (Preset, error) {
	var names []string
	for _, p := range presets {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Preset{}, fmt.Errorf("unknown agent %q; choose of %s", name, strings.Join(names, ", "))
}

// subagents returns the presets that p may hand work to.
func (p Preset) subagents() []Preset {
	if p.depth >= tools.TaskDepth {
		return nil
	}
	var out []Preset
	for _, s := range []Preset{generalPurpose, explore, plan, web} {
		if !slices.Contains(p.agents, s.Name) {
			continue
		}
		s.depth = p.depth + 1
		if s.Name == generalPurpose.Name { // which may hand on what it was handed
			s.agents = p.agents
		}
		out = append(out, s)
	}
	return out
}

// Subagent returns the preset of a name among those that p may hand work to.
func (p Preset) Subagent(name string) (Preset, error) { return named(name, p.subagents()) }

// Browses reports whether the preset works with the sandbox's browser. asked is
// whether its task says so.
func (p Preset) Browses(asked bool) bool {
	return p.browser == always || p.browser == asTold && asked
}

// Tools returns what of all the preset may use, and Task when it has subagents.
func (p Preset) Tools(all *tools.Set) *tools.Set {
	set := all
	if p.tools != nil {
		set = all.Only(p.tools...)
	}
	var agents []tools.Subagent
	for _, s := range p.subagents() {
		agents = append(agents, tools.Subagent{Name: s.Name, Description: s.Description})
	}
	if agents == nil {
		return set
	}
	return set.With(tools.NewTask(agents...))
}

// Place is where an agent's tools run, as it is told.
type Place struct {
	Name    string // "a sealed container"
	Workdir string
	Network sandbox.Network
	Host    bool // the person's own machine, with nothing in between
	Browser bool // the agent has the browser of that place
}

// System returns the preset's system prompt; own are the tools that the agent gets,
// of its preset and of its plugins. It is the same for every turn of a
// session: a vendor's cache holds a prompt only as long as no byte of it changes.
func (p Preset) System(at Place, own *tools.Set) string {
	var b strings.Builder
	b.WriteString("You are a software engineer working for the person in this conversation.\n\n# Where you are\n")
	fmt.Fprintf(&b, "Your tools run in %s. The workspace is %s; relative paths start there.\n", at.Name, at.Workdir)
	switch {
	case at.Host:
		b.WriteString("Nothing lies between your commands and the person's files: whatever you do there is done. Leave alone what is outside the workspace.\n")
	case at.Network.Mode == sandbox.NetworkOpen:
		b.WriteString("It has a network. What you change outside the workspace is lost with the sandbox.\n")
	case at.Network.Mode == sandbox.NetworkProxy:
		b.WriteString("It has no network interface. Programs reach the internet through a proxy, which http_proxy, https_proxy and all_proxy name already (HTTP and SOCKS5, TCP alone): " +
			"there is no DNS, UDP or ping inside, and a program that ignores these variables reaches nothing. " +
			"Public addresses are allowed; private ones and those of the person's machine are refused with 403 and a reason")
		if len(at.Network.Allow) > 0 {
			fmt.Fprintf(&b, ", except %s", strings.Join(at.Network.Allow, ", "))
		}
		b.WriteString(". Only the person can change that. What you change outside the workspace is lost with the sandbox.\n")
	default:
		b.WriteString("It has no network: nothing can be downloaded, and no address outside answers. What you change outside the workspace is lost with the sandbox.\n")
	}
	fmt.Fprintf(&b, "Your tools: %s. There are no others.\n", strings.Join(own.Names(), ", "))
	b.WriteString("\n# How you work\n" + p.work + "\n")
	if at.Browser {
		b.WriteString("\n# The browser\n" + browserWork + "\n")
	}
	return b.String()
}
