//go:build linux

package guest_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

func BenchmarkRun_true(b *testing.B) {
	c := newPlace(b).start()
	for b.Loop() {
		if _, err := c.Run(b.Context(), execenv.Caller{}, shell("true"), nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRun_output(b *testing.B) {
	p := newPlace(b)
	c := p.start()
	b.SetBytes(500_000_000)
	for b.Loop() {
		if _, err := c.Run(b.Context(), execenv.Caller{}, shell("head -c 500000000 /dev/zero"), func(execenv.Chunk) {}); err != nil {
			b.Fatal(err)
		}
	}
	// What the machine's other work cannot distort.
	b.ReportMetric(p.cpu().Seconds()/float64(b.N), "guest-cpu-s/op")
}

// cpu returns what the guest has spent.
func (p *place) cpu() time.Duration {
	p.t.Helper()
	body, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	f := strings.Fields(string(body[bytes.LastIndexByte(body, ')')+1:]))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * time.Second / 100
}
