package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
)

// desk holds the calls of a session that wait for a person. Any screen may
// answer them, so one can go from here without an answer at this terminal.
type desk struct {
	wake chan struct{} // of capacity one: a wake that is on its way covers the next

	mu      sync.Mutex
	waiting []string // call ids, the oldest first
}

func newDesk() *desk { return &desk{wake: make(chan struct{}, 1)} }

// ask adds a call. It never blocks.
func (d *desk) ask(callID string) {
	d.mu.Lock()
	d.waiting = append(d.waiting, callID)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// settle drops a call that was decided somewhere, or that has ended.
func (d *desk) settle(callID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = slices.DeleteFunc(d.waiting, func(id string) bool { return id == callID })
}

// oldest returns the call that waits the longest, or "".
func (d *desk) oldest() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) == 0 {
		return ""
	}
	return d.waiting[0]
}

// decide puts each line of the input to the call that waits when it comes, until
// ctx or the input ends. A line is read only once a call waits, and dropped when
// that call was decided elsewhere meanwhile and no other waits.
func (c *cli) decide(ctx context.Context, client *apiClient, id string, d *desk) {
	wanted := make(chan struct{})
	defer close(wanted)
	lines := readLines(ctx, c.in, wanted)
	reading := false
	for {
		want := wanted
		if reading || d.oldest() == "" {
			want = nil
		}
		select {
		case want <- struct{}{}:
			reading = true
		case <-d.wake:
		case line, ok := <-lines:
			if !ok {
				return // nobody there: what waits is for the screen
			}
			reading = false
			callID := d.oldest()
			if callID == "" {
				continue
			}
			d.settle(callID)
			c.answer(ctx, client, id, callID, line)
		case <-ctx.Done():
			return
		}
	}
}

// readLines reads one line for each wish. Its goroutine ends with ctx, wanted or
// the input; a read of a terminal cannot be ended from here, and the process is
// about to end then anyway.
func readLines(ctx context.Context, in io.Reader, wanted <-chan struct{}) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		r := bufio.NewReader(in)
		for range wanted {
			line, err := r.ReadString('\n')
			if err != nil && line == "" {
				return
			}
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

func (c *cli) answer(ctx context.Context, client *apiClient, id, callID, line string) {
	line = strings.ToLower(strings.TrimSpace(line))
	req := httpapi.DecisionRequest{Allow: line == "y" || line == "yes"}
	if !req.Allow {
		req.Reason = "denied at the terminal"
	}
	err := client.call(ctx, "POST", "/sessions/"+id+"/approvals/"+callID, req, nil)
	var api *apiError
	if err == nil || ctx.Err() != nil || errors.As(err, &api) && api.Code == "no_approval" {
		return // the last: another screen was faster
	}
	fmt.Fprintln(c.err, "glovebox:", err)
}
