package agent_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

// The browser adds its tools and one part at the end of the prompt, and takes
// nothing away; without it there is no word of it.
func TestPreset_systemWithTheBrowser(t *testing.T) {
	place := agent.Place{Name: "a sealed container", Workdir: "/w"}
	for _, name := range []string{"main", "explore", "plan"} {
		p, err := agent.PresetOf(name)
		if err != nil {
			t.Fatal(err)
		}
		own := p.Tools(tools.Standard())
		without := p.System(place, own)
		if strings.Contains(strings.ToLower(without), "browser") {
			t.Errorf("%s without the browser is told of it:\n%s", name, without)
		}
		more := own.With(tools.Browser()...)
		browsing := place
		browsing.Browser = true
		same := strings.Replace(without, strings.Join(own.Names(), ", "), strings.Join(more.Names(), ", "), 1)
		with, ok := strings.CutPrefix(p.System(browsing, more), same)
		if !ok || !strings.HasPrefix(with, "\n# The browser\n") {
			t.Errorf("%s with the browser is told more than one part at the end:\n%s", name, with)
		}
		for _, want := range []string{"look again", "browser_ask_person", "never type one"} {
			if !strings.Contains(with, want) {
				t.Errorf("%s is not told %q of the browser:\n%s", name, want, with)
			}
		}
		if _, ok := more.Lookup("browser_ask_person"); !ok {
			t.Error("with the browser an agent cannot ask the person to lend a hand")
		}
	}
}

func TestCheckPlugins(t *testing.T) {
	for _, c := range []struct {
		names, want []string
		fault       string
	}{
		{nil, nil, ""},
		{[]string{}, nil, ""},
		{[]string{task.PluginBrowser, task.PluginBrowser}, []string{task.PluginBrowser}, ""},
		{[]string{task.PluginBrowser, "telepathy"}, nil, `unknown plugin "telepathy"; choose of browser`},
	} {
		got, err := agent.CheckPlugins(c.names)
		if !slices.Equal(got, c.want) || (err == nil) != (c.fault == "") || err != nil && err.Error() != c.fault {
			t.Errorf("CheckPlugins(%q) = %q, %v; want %q, %q", c.names, got, err, c.want, c.fault)
		}
	}
	for _, p := range agent.Plugins() {
		if p.Description == "" {
			t.Errorf("%s has no description", p.Name)
		}
	}
}
