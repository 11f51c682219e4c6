package docker

import (
	"cmp"
	"fmt"
	"math"

	"github.com/docker/docker/api/types/container"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// limits reads the resources of a Spec over the defaults, for an engine with so
// many processors and so much memory: it refuses more than there is. What is not
// known is 0.
func limits(named map[string]string, processors int, memory int64) (sandbox.Resources, error) {
	r, err := sandbox.ParseResources(named)
	if err != nil {
		return r, err
	}
	if processors > 0 && r.CPUs > float64(processors) {
		return r, &sandbox.FieldError{Field: "resources.cpus", Reason: fmt.Sprintf("%q is more than the %d processors of the engine", named["cpus"], processors)}
	}
	if memory > 0 && r.Memory > memory {
		return r, &sandbox.FieldError{Field: "resources.memory", Reason: fmt.Sprintf("%q is more than the %dm of the engine's machine", named["memory"], memory>>20)}
	}
	r.Memory = cmp.Or(r.Memory, sandbox.DefaultResources.Memory)
	if memory > 0 {
		r.Memory = min(r.Memory, memory)
	}
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
