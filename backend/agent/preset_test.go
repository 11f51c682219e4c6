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
		"":        all.Names(),
		"main":    all.Names(),
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
			if name != "" && name != "main" && tool.Risk() != tools.RiskLow {
				t.Errorf("%s can change things with %s", name, n)
			}
		}
		if p.Description == "" {
			t.Errorf("%q has no description", name)
		}
	}
	if _, err := agent.PresetOf("chef"); err == nil || !strings.Contains(err.Error(), "choose of main, explore, plan") {
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
		{main, agent.Place{Name: "a sealed container", Workdir: "/w"}, []string{"a sealed container", "workspace is /w", "no network", "lost with the sandbox", "Read, Write, Edit, Glob, Grep, Bash, AskUser."}, []string{"person's files"}},
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
