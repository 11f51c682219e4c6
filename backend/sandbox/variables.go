package sandbox

import (
	"maps"
	"os"
	"slices"
)

// Variables returns the variables of a spec as a command gets them, in the order
// of their names. A host's variable is read now, for this command alone; one that
// is not set is left out.
func Variables(spec map[string]EnvValue) []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		value := spec[name].Literal
		if host := spec[name].FromHost; host != "" {
			var set bool
			if value, set = os.LookupEnv(host); !set {
				continue
			}
		}
		env = append(env, name+"="+value)
	}
	return env
}
