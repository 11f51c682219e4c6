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
func openModel(name string) (llm.Model, error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch kind {
	case demoModel:
		return script.New(script.Demo()), nil
	case "script":
		s, err := script.Load(rest)
		if err != nil {
			return nil, err
		}
		return script.New(s), nil
	}
	return nil, fmt.Errorf("unknown model %q; choose demo or script:FILE", name)
}

func (a *App) defaultModel() string {
	if a.o.Config.Model != "" {
		return a.o.Config.Model
	}
	return demoModel
}
