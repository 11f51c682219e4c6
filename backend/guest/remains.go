//go:build linux

package guest

import (
	"sync"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/process"
)

// remains are the marks of what is no call, a terminal or a browser, that were
// killed while a process outlived that.
type remains struct {
	table *process.Table

	mu   sync.Mutex
	left []*process.Mark
}

// kill ends all that carries a mark. It is called once for each, at its end: what
// lived on in the background until then is known by the mark, and only now is
// that given back.
func (r *remains) kill(mark *process.Mark, cause string) execenv.KillReport {
	report := r.table.Kill(mark, cause)
	r.mu.Lock()
	marks := append(r.left, mark)
	r.left = nil
	r.mu.Unlock()
	carried := r.table.Sweep(marks)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range marks {
		if _, ok := carried[m]; ok {
			r.left = append(r.left, m)
		}
	}
	return report
}
