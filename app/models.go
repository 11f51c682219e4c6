package app

import (
	"fmt"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/script"
)

// demoModel needs no key and no network.
const demoModel = "demo"

// openModel returns the model of a configured name.
func openModel(name string) (llm.Served, error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch kind {
	case demoModel:
		return played(script.Demo()), nil
	case "script":
		s, err := script.Load(rest)
		if err != nil {
			return llm.Served{}, err
		}
		return played(s), nil
	}
	return llm.Served{}, fmt.Errorf("unknown model %q; choose demo or script:FILE", name)
}

// played returns the model of a script, which costs nothing.
func played(s script.Script) llm.Served {
	return llm.Served{Model: script.New(s), Price: &llm.Price{}, Sees: true}
}

func (a *App) defaultModel() string {
	if a.o.Config.Model != "" {
		return a.o.Config.Model
	}
	return demoModel
}
