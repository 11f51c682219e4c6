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
	Description string // for people
	tools       []string
	work        string // the part of the system prompt that says how to work
}

// MainPreset is the name of the preset of a session that names none.
const MainPreset = "main"

// looking are the tools that change nothing.
var looking = []string{"Read", "Glob", "Grep", "AskUser"}

var presets = []Preset{
	{
		Name:        MainPreset,
		Description: "Does the work: reads, edits and runs commands.",
		work: `Look before you change: read what you are about to edit, and search for who else depends on it. Work in small steps, and check each by running it. Ask for independent reads and searches together in one answer: they run side by side. A command that is still running at its timeout is killed with everything it started, so give long ones a longer timeout.
Do what was asked and no more. When something fails, find out why before you try something else. At the end say briefly what you did, how you checked it, and what does not work.`,
	},
	{
		Name:        "explore",
		Description: "Finds things out: reads and searches, changes nothing.",
		tools:       looking,
		work: `You find things out and change nothing: there is no tool here that could. Start wide with searches, ask for independent ones together in one answer, then read what matters, whole where it matters most.
Answer the question that was asked, with the paths and line numbers that show it. Say what you did not find, and what you only assume.`,
	},
	{
		Name:        "plan",
		Description: "Thinks a change through and writes down its steps, changes nothing.",
		tools:       looking,
		work: `You plan a change and do not make it: there is no tool here that could. First learn how the code at hand does such things: read it, search for its callers, its tests and its conventions. Ask for independent reads together in one answer.
Then write the plan: what will be different afterwards, the steps in an order in which each can be checked, the files that each touches, how it is checked, and what may go wrong. Where there is a real choice, name the alternatives and take one. Ask only what the code cannot answer.`,
	},
}

// Presets returns all presets, the default first.
func Presets() []Preset { return slices.Clone(presets) }

// PresetOf returns the preset of a name; "" is the default.
func PresetOf(name string) (Preset, error) {
	if name == "" {
		name = MainPreset
	}
	var names []string
	for _, p := range presets {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Preset{}, fmt.Errorf("unknown agent %q; choose of %s", name, strings.Join(names, ", "))
}

// Tools returns those of all that the preset may use.
func (p Preset) Tools(all *tools.Set) *tools.Set {
	if p.tools == nil {
		return all
	}
	return all.Only(p.tools...)
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
