package docker

import (
	"cmp"
	"fmt"
	"math"

	"github.com/docker/docker/api/types/container"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// defaults are a container's resources where a Spec names none. Two processors
// are asked for on a machine that has them: the engine refuses more than there are.
var defaults = sandbox.Resources{Memory: 2 << 30, Shm: 1 << 30, PIDs: 512, CPUs: 2}

// limits reads the resources of a Spec over the defaults, for an engine with so
// many processors.
func limits(named map[string]string, processors int) (sandbox.Resources, error) {
	r, err := sandbox.ParseResources(named)
	if err != nil {
		return r, err
	}
	if processors > 0 && r.CPUs > float64(processors) {
		return r, &sandbox.FieldError{Field: "resources.cpus", Reason: fmt.Sprintf("%q is more than the %d processors of the engine", named["cpus"], processors)}
	}
	r.Memory = cmp.Or(r.Memory, defaults.Memory)
	r.Shm = cmp.Or(r.Shm, defaults.Shm)
	r.PIDs = cmp.Or(r.PIDs, defaults.PIDs)
	r.CPUs = cmp.Or(r.CPUs, defaults.CPUs)
	if processors > 0 {
		r.CPUs = min(r.CPUs, float64(processors))
	}
	return r, nil
}

// engineLimits are resources as the engine takes them. Swap is memory and
// nothing more, or a full container would crawl instead of being stopped.
func engineLimits(r sandbox.Resources) container.Resources {
	return container.Resources{
		Memory:     r.Memory,
		MemorySwap: r.Memory,
		NanoCPUs:   int64(math.Round(r.CPUs * 1e9)),
		PidsLimit:  &r.PIDs,
	}
}
