package session

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glovebox-dev/glovebox/backend/egress"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// written collects what an egressLog writes, by session.
func written() (*egressLog, *[]task.EgressDecided) {
	var mu sync.Mutex
	var all []task.EgressDecided
	return newEgressLog(func(_ string, e task.EgressDecided) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, e)
	}), &all
}

func TestEgressLog_countsEqualDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, all := written()
		registry := egress.Decision{Protocol: egress.Connect, Host: "registry.test", Port: 443, Address: "93.184.216.34", Allowed: true, Reason: "a public address"}
		refused := egress.Decision{Protocol: egress.HTTP, Host: "10.0.0.1", Port: 80, Address: "10.0.0.1", Reason: "a private address"}
		for i := range 2000 { // as an installation does, over twenty seconds
			registry.At = time.Now()
			l.add("s", registry, task.EgressDecided{Count: 1})
			if i == 5 {
				refused.At = time.Now()
				l.add("s", refused, task.EgressDecided{Count: 1})
			}
			time.Sleep(10 * time.Millisecond)
			l.add("s", registry, task.EgressDecided{Sent: 10, Received: 100, Longest: 10 * time.Millisecond})
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		events, count, sent, received, against := len(*all), 0, int64(0), int64(0), 0
		for _, e := range *all {
			if !e.Allowed {
				against += e.Count
				continue
			}
			count, sent, received = count+e.Count, sent+e.Sent, received+e.Received
			if e.Address != registry.Address || e.First.IsZero() {
				t.Errorf("event %+v says not where or when", e)
			}
		}
		if count != 2000 || sent != 20000 || received != 200000 || against != 1 {
			t.Errorf("the events say %d connections, %d and %d bytes, %d refusals", count, sent, received, against)
		}
		if events > 8 {
			t.Errorf("%d events for 2001 decisions", events)
		}
		if len(l.pending) > 0 {
			t.Errorf("%d sessions are kept in memory when all is quiet", len(l.pending))
		}
		l.close()
	})
}

func TestEgressLog_namesOnlySoManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, all := written()
		for i := range 5000 {
			d := egress.Decision{At: time.Now(), Protocol: egress.HTTP, Host: fmt.Sprintf("h%d.test", i), Port: 80, Reason: "no"}
			l.add("s", d, task.EgressDecided{Count: 1})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		count := 0
		for _, e := range *all {
			count += e.Count
		}
		if count != 5000 || len(*all) > maxPending+1 {
			t.Errorf("%d events with %d decisions, want at most %d with 5000", len(*all), count, maxPending+1)
		}
		l.close()
	})
}

func TestEgressLog_closeWritesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, all := written()
		l.add("s", egress.Decision{At: time.Now(), Host: "a", Allowed: true}, task.EgressDecided{Count: 1})
		l.add("s", egress.Decision{At: time.Now(), Host: "a", Allowed: true}, task.EgressDecided{Failed: 1, Error: "connection refused"})
		l.close()
		if len(*all) != 1 || (*all)[0].Count != 1 || (*all)[0].Failed != 1 || (*all)[0].Error == "" {
			t.Errorf("written %+v", *all)
		}
		l.add("s", egress.Decision{Host: "b"}, task.EgressDecided{Count: 1}) // too late, and quiet
		time.Sleep(time.Minute)
	})
}
