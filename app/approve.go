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
	"github.com/glovebox-dev/glovebox/backend/task"
)

// desk holds the calls of a session that wait for a person. Any screen may
// answer them, so one can go from here without an answer at this terminal.
type desk struct {
	wake chan struct{} // of capacity one: a wake that is on its way covers the next

	mu      sync.Mutex
	waiting []asked // the oldest first
}

// asked is a call that waits for a person.
type asked struct {
	callID   string
	question *task.Question // nil for a decision
}

func newDesk() *desk { return &desk{wake: make(chan struct{}, 1)} }

// ask adds a call. It never blocks.
func (d *desk) ask(a asked) {
	d.mu.Lock()
	d.waiting = append(d.waiting, a)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// settle drops a call that was answered somewhere, or that has ended.
func (d *desk) settle(callID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = slices.DeleteFunc(d.waiting, func(a asked) bool { return a.callID == callID })
}

// oldest returns the call that waits the longest.
func (d *desk) oldest() (asked, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) == 0 {
		return asked{}, false
	}
	return d.waiting[0], true
}

// decide puts each line of the input to the call that waits when it comes, until
// ctx or the input ends. A line is read only once a call waits, and dropped when
// that call was answered elsewhere meanwhile and no other waits.
func (c *cli) decide(ctx context.Context, client *apiClient, id string, d *desk) {
	wanted := make(chan struct{})
	defer close(wanted)
	lines := readLines(ctx, c.in, wanted)
	reading := false
	for {
		want := wanted
		if _, waits := d.oldest(); reading || !waits {
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
			a, waits := d.oldest()
			switch {
			case !waits:
			case a.question == nil:
				d.settle(a.callID)
				c.allow(ctx, client, id, a.callID, line)
			default:
				req, ok := readAnswer(*a.question, line)
				if !ok { // an empty line: it goes on waiting
					continue
				}
				d.settle(a.callID)
				c.told(ctx, client.call(ctx, "POST", "/sessions/"+id+"/answers/"+a.callID, req, nil))
			}
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

func (c *cli) allow(ctx context.Context, client *apiClient, id, callID, line string) {
	line = strings.ToLower(strings.TrimSpace(line))
	req := httpapi.DecisionRequest{Allow: line == "y" || line == "yes"}
	if !req.Allow {
		req.Reason = "denied at the terminal"
	}
	c.told(ctx, client.call(ctx, "POST", "/sessions/"+id+"/approvals/"+callID, req, nil))
}

// told says that an answer was not taken, but where another screen was faster.
func (c *cli) told(ctx context.Context, err error) {
	var api *apiError
	if err == nil || ctx.Err() != nil || errors.As(err, &api) && (api.Code == "no_approval" || api.Code == "no_question") {
		return
	}
	fmt.Fprintln(c.err, "glovebox:", err)
}
