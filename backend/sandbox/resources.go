package sandbox

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Resources are a Spec's resources, parsed. A field that was not named is zero:
// what that means (a default, or no limit) is the provider's choice.
type Resources struct {
	Memory int64 // bytes
	Shm    int64 // bytes of /dev/shm
	PIDs   int64
	CPUs   float64
}

// DefaultResources are what a sandbox gets of what its Spec does not name; the
// processors as far as the machine has them.
var DefaultResources = Resources{Memory: 2 << 30, Shm: 1 << 30, PIDs: 512, CPUs: 2}

// Named writes resources as a Spec does. What is zero is left out.
func (r Resources) Named() map[string]string {
	named := map[string]string{}
	if r.Memory > 0 {
		named["memory"] = FormatSize(r.Memory)
	}
	if r.Shm > 0 {
		named["shm"] = FormatSize(r.Shm)
	}
	if r.PIDs > 0 {
		named["pids"] = strconv.FormatInt(r.PIDs, 10)
	}
	if r.CPUs > 0 {
		named["cpus"] = strconv.FormatFloat(r.CPUs, 'f', -1, 64)
	}
	return named
}

// The least that a sandbox can live with. Below it a guest or its first command
// does not start, which an engine would report as something else.
const (
	MinMemory = 16 << 20
	MinPIDs   = 64
	MinCPUs   = 0.01
)

// ParseResources reads the keys memory ("2g", "512M", bytes without a unit), shm
// (likewise), pids (a whole number) and cpus ("2", "0.5"). An unknown key or a
// bad value is a *FieldError that names resources.KEY.
func ParseResources(named map[string]string) (Resources, error) {
	var r Resources
	for _, key := range slices.Sorted(maps.Keys(named)) {
		value := strings.TrimSpace(named[key])
		var err error
		switch key {
		case "memory":
			if r.Memory, err = ParseSize(value); err == nil && r.Memory < MinMemory {
				err = fmt.Errorf("%q is less than 16m, the least a sandbox can run with", value)
			}
		case "shm":
			r.Shm, err = ParseSize(value)
		case "pids":
			if r.PIDs, err = strconv.ParseInt(value, 10, 32); err != nil {
				err = fmt.Errorf(`%q is not a whole number such as "512"`, value)
			} else if r.PIDs < MinPIDs {
				err = fmt.Errorf("%q is less than %d, the least a sandbox can run with", value, MinPIDs)
			}
		case "cpus":
			r.CPUs, err = parseCPUs(value)
		default:
			err = fmt.Errorf("is unknown; choose memory, shm, pids or cpus")
		}
		if err != nil {
			return Resources{}, &FieldError{"resources." + key, err.Error()}
		}
	}
	return r, nil
}

// ParseSize reads a size in bytes with an optional binary unit, in any case:
// b, k, m, g, t, each also as kb or kib.
func ParseSize(s string) (int64, error) {
	fault := fmt.Errorf(`%q is not a size such as "2g" or "512M"`, s)
	digits := strings.TrimRight(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz ")
	unit := strings.TrimSpace(strings.ToLower(s)[len(digits):])
	shift := 0
	if unit != "" && unit != "b" {
		i := strings.IndexByte("kmgt", unit[0])
		if i < 0 || (unit[1:] != "" && unit[1:] != "b" && unit[1:] != "ib") {
			return 0, fault
		}
		shift = 10 * (i + 1)
	}
	n, ok := parseDecimal(digits)
	if !ok || n <= 0 {
		return 0, fault
	}
	bytes := n * float64(int64(1)<<shift)
	if bytes < 1 || bytes > 1<<50 {
		return 0, fmt.Errorf("%q is out of range", s)
	}
	return int64(bytes), nil
}

// FormatSize writes bytes as a Spec's resources do: in the largest binary unit that
// they are a whole number of.
func FormatSize(n int64) string {
	for _, unit := range []struct {
		shift uint
		name  string
	}{{30, "g"}, {20, "m"}, {10, "k"}} {
		if n > 0 && n%(1<<unit.shift) == 0 {
			return strconv.FormatInt(n>>unit.shift, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

func parseCPUs(s string) (float64, error) {
	n, ok := parseDecimal(s)
	if !ok {
		return 0, fmt.Errorf(`%q is not a number of CPUs such as "2" or "0.5"`, s)
	}
	if n < MinCPUs || n > 4096 {
		return 0, fmt.Errorf("%q is out of range; at least %v", s, MinCPUs)
	}
	return math.Round(n*1e9) / 1e9, nil
}

// parseDecimal takes plain decimals alone: strconv.ParseFloat by itself would
// also read "inf", "0x1p4" and "1_000".
func parseDecimal(s string) (float64, bool) {
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil
}
