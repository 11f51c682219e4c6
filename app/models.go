package app

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/config"
	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/anthropic"
	"github.com/glovebox-dev/glovebox/backend/llm/openai"
	"github.com/glovebox-dev/glovebox/backend/llm/script"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// demoModel needs no key and no network.
const demoModel = "demo"

// modelForms are the names that a model can have, for people.
const modelForms = "demo, script:FILE, anthropic:NAME or openai:NAME"

// The vendors, as the first part of a model's name.
const (
	vendorAnthropic = "anthropic"
	vendorOpenAI    = "openai"
)

// wellKnown are offered at the vendors' own servers, so that a key is all that
// is needed. Their prices are not known here: they change.
var wellKnown = []config.Model{
	{Name: "anthropic:claude-opus-5-5", Label: "Claude Opus 5.5"},
	{Name: "anthropic:claude-sonnet-5-5", Label: "Claude Sonnet 5.5"},
	{Name: "anthropic:claude-haiku-5-5", Label: "Claude Haiku 5.5"},
	{Name: "openai:gpt-6.1-sol", Label: "GPT-6.1 Sol"},
	{Name: "openai:gpt-6.1-terra", Label: "GPT-6.1 Terra"},
	{Name: "openai:gpt-6-luna", Label: "GPT-6 Luna"},
}

// endpoint is where a model is.
type endpoint struct {
	baseURL, keyEnv string
	own             bool // not the vendor's
}

// endpointOf returns where a model is: as it says itself, as its vendor's section
// or variable says, or at the vendor's own.
func (a *App) endpointOf(vendor string, m config.Model) endpoint {
	v, base, env := a.o.Config.Anthropic, anthropic.DefaultBaseURL, anthropic.DefaultKeyEnv
	if vendor == vendorOpenAI {
		v, base, env = a.o.Config.OpenAI, openai.DefaultBaseURL, openai.DefaultKeyEnv
	}
	s := endpoint{baseURL: cmp.Or(m.BaseURL, v.BaseURL, base), keyEnv: env}
	if v.KeyEnv != nil {
		s.keyEnv = *v.KeyEnv
	}
	if m.KeyEnv != nil {
		s.keyEnv = *m.KeyEnv
	}
	s.own = s.baseURL != base
	return s
}

// sees reports whether a model takes images. Those of the vendors do; what
// somebody serves behind OpenAI's wire often does not.
func sees(vendor string, m config.Model, s endpoint) bool {
	if m.Sees != nil {
		return *m.Sees
	}
	return vendor == vendorAnthropic || !s.own
}

// openModel returns the model of a name. One of a vendor needs no entry in the
// configuration.
func (a *App) openModel(name string) (llm.Served, error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch {
	case name == demoModel:
		demo := played(script.Demo())
		demo.Plugins = []string{task.PluginBrowser} // it opens a page where there is a browser
		return demo, nil
	case kind == "script":
		s, err := script.Load(rest)
		if err != nil {
			return llm.Served{}, err
		}
		return played(s), nil
	case rest == "" || kind != vendorAnthropic && kind != vendorOpenAI:
		return llm.Served{}, fmt.Errorf("unknown model %q; choose %s; known here: %s", name, modelForms, strings.Join(a.modelNames(), ", "))
	}
	m := config.Model{Name: name}
	if i := slices.IndexFunc(a.o.Config.Models, func(m config.Model) bool { return m.Name == name }); i >= 0 {
		m = a.o.Config.Models[i]
	}
	s := a.endpointOf(kind, m)
	out := llm.Served{Name: rest, MaxTokens: m.MaxTokens, Price: price(m.Price), Sees: sees(kind, m, s)}
	if kind == vendorAnthropic {
		out.Model = anthropic.New(anthropic.Options{BaseURL: s.baseURL, KeyEnv: s.keyEnv, Thinking: anthropic.Thinking(m.Thinking)})
	} else {
		out.Model = openai.New(openai.Options{BaseURL: s.baseURL, KeyEnv: s.keyEnv})
	}
	return out, nil
}

// played returns the model of a script, which costs nothing.
func played(s script.Script) llm.Served {
	return llm.Served{Model: script.New(s), Price: &llm.Price{}, Sees: true}
}

func price(p *config.Price) *llm.Price {
	if p == nil {
		return nil
	}
	return &llm.Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}
}

func (a *App) defaultModel() string {
	if a.o.Config.Model != "" {
		return a.o.Config.Model
	}
	return demoModel
}

// offered returns the models of the vendors that a person is offered: those of
// the configuration, then the well-known ones where their vendor's own server
// is asked.
func (a *App) offered() []config.Model {
	out := slices.Clone(a.o.Config.Models)
	add := func(m config.Model) {
		if !slices.ContainsFunc(out, func(o config.Model) bool { return o.Name == m.Name }) {
			out = append(out, m)
		}
	}
	if m := a.defaultModel(); strings.HasPrefix(m, vendorAnthropic+":") || strings.HasPrefix(m, vendorOpenAI+":") {
		add(config.Model{Name: m})
	}
	for _, m := range wellKnown {
		if vendor, _, _ := strings.Cut(m.Name, ":"); !a.endpointOf(vendor, m).own {
			add(m)
		}
	}
	return out
}

func (a *App) modelNames() []string {
	names := []string{demoModel}
	for _, m := range a.offered() {
		names = append(names, m.Name)
	}
	return names
}

// models describes what a session can be given. Whether a key is set is looked
// up now; the key itself goes nowhere.
func (a *App) models() []httpapi.ModelInfo {
	free := &llm.Price{}
	out := []httpapi.ModelInfo{{Name: demoModel, Label: "Demo", Sees: true, Price: free}}
	if m := a.defaultModel(); strings.HasPrefix(m, "script:") {
		out = append(out, httpapi.ModelInfo{Name: m, Label: m, Sees: true, Price: free})
	}
	for _, m := range a.offered() {
		vendor, name, _ := strings.Cut(m.Name, ":")
		s := a.endpointOf(vendor, m)
		out = append(out, httpapi.ModelInfo{
			Name: m.Name, Label: cmp.Or(m.Label, name), BaseURL: s.baseURL, KeyEnv: s.keyEnv, KeySet: keySet(s.keyEnv),
			Sees: sees(vendor, m, s), Price: price(m.Price),
		})
	}
	return out
}

func keySet(env string) bool { return env != "" && strings.TrimSpace(os.Getenv(env)) != "" }

// checkModelKey looks whether a model can be used beside the demo, and the
// configured one above all. worse is "" when one can. A key that is missing is
// worth knowing and no fault, since the demo needs none; it is a fault where the
// model that sessions get by themselves waits for it.
func (a *App) checkModelKey() (check httpapi.Check, worse string) {
	var says, missing []string
	worse = "info"
	wanted := "" // variable of the default model that is not set
	for _, m := range a.models()[1:] {
		switch {
		case m.BaseURL == "": // a script
			worse = ""
		case m.KeyEnv == "":
			worse = ""
			says = append(says, m.Name+" needs none")
		case slices.Contains(missing, m.KeyEnv) || slices.Contains(says, m.KeyEnv+" is set"):
		case m.KeySet:
			worse = ""
			says = append(says, m.KeyEnv+" is set")
		default:
			missing = append(missing, m.KeyEnv)
			says = append(says, m.KeyEnv+" is not set")
		}
		if m.Name == a.defaultModel() && m.KeyEnv != "" && !m.KeySet {
			wanted = m.KeyEnv
		}
	}
	check = httpapi.Check{Name: "model key", Detail: strings.Join(says, ", ")}
	check.Fix = fmt.Sprintf("set %s where Glovebox runs, and start it again; the demo needs no key", strings.Join(missing, " or "))
	if wanted != "" {
		worse, missing = "warn", []string{wanted}
		check.Fix = fmt.Sprintf("%s needs %s: set it where Glovebox runs, and start it again", a.defaultModel(), wanted)
	}
	if len(missing) > 0 {
		check.Command = fmt.Sprintf("export %s=…", missing[0])
	}
	return check, worse
}
