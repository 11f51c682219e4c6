package lifetime

import (
	"context"
	"testing"
	"testing/synctest"
)

// What has changed while an attempt was under way is seen by whoever asks after the
// change: they wait for it, and share the next.
func TestFlights_doAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g flights[string]
		world, attempts := "before", 0
		read := make(chan struct{})
		first := make(chan string, 1)
		go func() {
			v, err := g.doAnew(t.Context(), "k", func() (string, error) {
				seen := world
				<-read
				return seen, nil
			})
			if err != nil {
				t.Error(err)
			}
			first <- v
		}()
		synctest.Wait()
		world = "after"
		const callers = 5
		got := make(chan string, callers)
		for range callers {
			go func() {
				v, err := g.doAnew(t.Context(), "k", func() (string, error) {
					attempts++
					synctest.Wait()
					return world, nil
				})
				if err != nil {
					t.Error(err)
				}
				got <- v
			}()
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.doAnew(gone, "k", nil); err != context.Canceled {
			t.Errorf("who went away: %v", err)
		}
		synctest.Wait()
		close(read)
		if v := <-first; v != "before" {
			t.Errorf("the first saw %q", v)
		}
		for range callers {
			if v := <-got; v != "after" {
				t.Errorf("who asked after the change saw %q", v)
			}
		}
		if attempts != 1 {
			t.Errorf("%d attempts for those who asked together, want one", attempts)
		}
	})
}
