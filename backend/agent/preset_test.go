package agent_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

func TestPresets_narrowTheTools(t *testing.T) {
	all := tools.Standard()
	for name, want := range map[string][]string{
		"":        append(all.Names(), "Task"),
		"main":    append(all.Names(), "Task"),
		"browser": append(all.Names(), "Task"),
		"explore": {"Read", "Glob", "Grep", "AskUser"},
		"plan":    {"Read", "Glob", "Grep", "AskUser"},
	} {
		p, err := agent.PresetOf(name)
		if err != nil {
			t.Fatal(err)
		}
		set := p.Tools(all)
		if got := set.Names(); !slices.Equal(got, want) {
			t.Errorf("%q has the tools %v, want %v", name, got, want)
		}
		for _, n := range set.Names() {
			tool, _ := set.Lookup(n)
			if (name == "explore" || name == "plan") && tool.Risk() != tools.RiskLow {
				t.Errorf("%s can change things with %s", name, n)
			}
		}
		if p.Description == "" {
			t.Errorf("%q has no description", name)
		}
	}
	if _, err := agent.PresetOf("chef"); err == nil || !strings.Contains(err.Error(), "choose of main, browser, explore, plan") {
		t.Errorf("PresetOf = %v, want the choice", err)
	}
	if first := agent.Presets()[0].Name; first != agent.MainPreset {
		t.Errorf("the first preset is %s, want the default", first)
	}
}

// The prompt says what is true of the place, and the same each time.
func TestPreset_system(t *testing.T) {
	all := tools.Standard()
	main, _ := agent.PresetOf("")
	plan, _ := agent.PresetOf("plan")
	for _, tt := range []struct {
		preset    agent.Preset
		place     agent.Place
		has, lack []string
	}{
		{main, agent.Place{Name: "a sealed container", Workdir: "/w"}, []string{"a sealed container", "workspace is /w", "no network", "lost with the sandbox", "Read, Write, Edit, Glob, Grep, Bash, AskUser, Task."}, []string{"person's files"}},
		{main, agent.Place{Name: "a sealed container", Workdir: "/w", Network: sandbox.Network{Mode: sandbox.NetworkOpen}}, []string{"has a network"}, []string{"no network"}},
		{main, agent.Place{Name: "a sealed container", Workdir: "/w", Network: sandbox.Network{Mode: sandbox.NetworkProxy, Allow: []string{"db.corp:5432"}}},
			[]string{"through a proxy", "except db.corp:5432"}, []string{"nothing can be downloaded", "has a network."}},
		{main, agent.Place{Name: "the person's own machine", Workdir: "/w", Host: true}, []string{"own machine", "person's files"}, []string{"sandbox"}},
		{plan, agent.Place{Name: "a sealed container", Workdir: "/w"}, []string{"Your tools: Read, Glob, Grep, AskUser. ", "plan a change"}, []string{"Bash"}},
	} {
		own := tt.preset.Tools(all)
		got := tt.preset.System(tt.place, own)
		for _, s := range tt.has {
			if !strings.Contains(got, s) {
				t.Errorf("%s in %+v is not told %q:\n%s", tt.preset.Name, tt.place, s, got)
			}
		}
		for _, s := range tt.lack {
			if strings.Contains(got, s) {
				t.Errorf("%s in %+v is told %q:\n%s", tt.preset.Name, tt.place, s, got)
			}
		}
		if again := tt.preset.System(tt.place, own); again != got {
			t.Errorf("%s is told another thing each time", tt.preset.Name)
		}
	}
}

// The agent of a session with the subagent web is main with one rule more, and has
// the browser as little as its other subagents do.
func TestSandboxBrowserOptions(t *testing.T) {
	all := tools.Standard()
	main, _ := agent.PresetOf("main")
	with := agent.SandboxBrowserOptions()
	at := agent.Place{Name: "a sealed container", Workdir: "/w"}
	before, after := main.System(at, main.Tools(all)), with.System(at, with.Tools(all))
	rest, found := strings.CutSuffix(after, "Leave work on web pages to the subagent web: it has the sandbox's browser, and you have not.\n")
	if !found || rest != before {
		t.Errorf("main is told:\n%s\nand with web:\n%s", before, after)
	}
	if byName, err := agent.PresetOf(with.Name); err != nil || byName.System(at, byName.Tools(all)) != after {
		t.Errorf("PresetOf(%q) = %+v, %v", with.Name, byName, err)
	}
	if with.Browses(true) || !main.Browses(true) || main.Browses(false) {
		t.Error("main has the browser when its session says so, and that with web never")
	}
	if _, err := main.Subagent("web"); err == nil {
		t.Error("main has the subagent web")
	}
	for _, name := range []string{"general-purpose", "explore", "plan", "web"} {
		p, err := with.Subagent(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.Browses(false) != (name == "web") {
			t.Errorf("%s has the browser: %v", name, p.Browses(false))
		}
	}
}

// Work is handed on two levels deep, by those that may hand it on, and a web of the
// second level has the browser as one of the first has.
func TestSubagent_depth(t *testing.T) {
	all := tools.Standard()
	has := func(p agent.Preset) bool { _, ok := p.Tools(all).Lookup("Task"); return ok }
	first, err := agent.SandboxBrowserOptions().Subagent("general-purpose")
	if err != nil || !has(first) {
		t.Fatalf("the first level hands nothing on: %v", err)
	}
	for _, name := range []string{"general-purpose", "explore", "plan", "web"} {
		second, err := first.Subagent(name)
		if err != nil || has(second) || second.Browses(false) != (name == "web") {
			t.Errorf("%s of the second level: %v, hands on %v, browses %v", name, err, has(second), second.Browses(false))
		}
		if third, err := second.Subagent("explore"); err == nil {
			t.Errorf("%s of the second level has %s", name, third.Name)
		}
	}
	for _, name := range []string{"explore", "plan"} {
		if p, _ := agent.PresetOf(name); has(p) {
			t.Errorf("%s, which changes nothing, hands work on", name)
		}
	}
}
