package sandbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func TestParseResources(t *testing.T) {
	tests := []struct {
		key, value string
		want       sandbox.Resources
	}{
		{"memory", "2g", sandbox.Resources{Memory: 2 << 30}},
		{"memory", "512M", sandbox.Resources{Memory: 512 << 20}},
		{"memory", "1.5GiB", sandbox.Resources{Memory: 3 << 29}},
		{"memory", "64 mb", sandbox.Resources{Memory: 64 << 20}},
		{"memory", "16777216", sandbox.Resources{Memory: 16 << 20}},
		{"shm", "1g", sandbox.Resources{Shm: 1 << 30}},
		{"pids", "512", sandbox.Resources{PIDs: 512}},
		{"cpus", "0.5", sandbox.Resources{CPUs: 0.5}},
		{"cpus", "2", sandbox.Resources{CPUs: 2}},
	}
	for _, tt := range tests {
		got, err := sandbox.ParseResources(map[string]string{tt.key: tt.value})
		if err != nil || got != tt.want {
			t.Errorf("ParseResources(%s=%q) = %+v, %v, want %+v", tt.key, tt.value, got, err, tt.want)
		}
	}
	if got, err := sandbox.ParseResources(nil); err != nil || got != (sandbox.Resources{}) {
		t.Errorf("ParseResources(nil) = %+v, %v, want nothing", got, err)
	}
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[int64]string{
		2 << 30: "2g", 1536 << 20: "1536m", 64 << 20: "64m", 3 << 10: "3k", 1000: "1000", 0: "0",
	} {
		if got := sandbox.FormatSize(n); got != want {
			t.Errorf("FormatSize(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestResources_named(t *testing.T) {
	want := map[string]string{"memory": "2g", "shm": "1g", "pids": "512", "cpus": "2"}
	if diff := cmp.Diff(want, sandbox.DefaultResources.Named()); diff != "" {
		t.Errorf("the defaults by name (-want +got):\n%s", diff)
	}
	r := sandbox.Resources{Memory: 1<<30 + 1, CPUs: 0.5}
	again, err := sandbox.ParseResources(r.Named())
	if err != nil || again != r {
		t.Errorf("%+v came back as %+v, %v", r, again, err)
	}
}

func TestParseResources_refusesByName(t *testing.T) {
	for _, tt := range [][2]string{
		{"memory", ""}, {"memory", "two"}, {"memory", "2x"}, {"memory", "-1g"}, {"memory", "inf"},
		{"memory", "0"}, {"memory", "-1"}, {"memory", "2 gigs"}, {"memory", "1m"}, {"memory", "2gg"}, {"memory", "9999999t"}, {"memory", "1.2.3g"},
		{"pids", "many"}, {"pids", "0"}, {"pids", "-1"}, {"pids", "1.5"},
		{"cpus", "0"}, {"cpus", "NaN"}, {"cpus", "1e3"}, {"cpus", "-1"}, {"cpus", "2 gigs"}, {"pids", "2 gigs"}, {"shm", "2 gigs"}, {"shm", "-1"}, {"shm", "0"}, {"cpus", ""},
		{"gpus", "1"},
	} {
		_, err := sandbox.ParseResources(map[string]string{tt[0]: tt[1]})
		if !errors.Is(err, sandbox.ErrSpec) || !strings.HasPrefix(err.Error(), "resources."+tt[0]+": ") {
			t.Errorf("ParseResources(%s=%q) = %v, want a spec error that names the key", tt[0], tt[1], err)
		}
	}
}

func FuzzParseResources(f *testing.F) {
	f.Add("2g", "0.5")
	f.Fuzz(func(t *testing.T, memory, cpus string) {
		r, err := sandbox.ParseResources(map[string]string{"memory": memory, "cpus": cpus})
		if err == nil && (r.Memory < sandbox.MinMemory || r.CPUs < sandbox.MinCPUs) {
			t.Errorf("ParseResources(%q, %q) = %+v, which nothing can run with", memory, cpus, r)
		}
	})
}
