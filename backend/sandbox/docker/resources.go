package docker

import (
	"cmp"
	"fmt"
	"math"

	"github.com/docker/docker/api/types/container"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// limits reads the resources of a Spec over the defaults, for an engine with so
// many processors: it refuses more than there are.
func limits(named map[string]string, processors int) (sandbox.Resources, error) {
	r, err := sandbox.ParseResources(named)
	if err != nil {
		return r, err
	}
	if processors > 0 && r.CPUs > float64(processors) {
		return r, &sandbox.FieldError{Field: "resources.cpus", Reason: fmt.Sprintf("%q is more than the %d processors of the engine", named["cpus"], processors)}
	}
	r.Memory = cmp.Or(r.Memory, sandbox.DefaultResources.Memory)
	r.Shm = cmp.Or(r.Shm, sandbox.DefaultResources.Shm)
	r.PIDs = cmp.Or(r.PIDs, sandbox.DefaultResources.PIDs)
	r.CPUs = cmp.Or(r.CPUs, sandbox.DefaultResources.CPUs)
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
