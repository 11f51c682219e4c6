package control_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glovebox-dev/glovebox/backend/browser/control"
)

func nothing() {}

func look(t *testing.T, l *control.Lease) {
	t.Helper()
	k, err := l.Look()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Done(); err != nil {
		t.Fatal(err)
	}
}

func TestLease_takeAndGiveBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := control.New()
		if err := l.Agent(nothing); err != nil {
			t.Fatalf("agent before anyone took control: %v", err)
		}
		s, err := l.Take("ann", time.Minute)
		if err != nil || !s.Held() || s.Left != time.Minute {
			t.Fatalf("Take() = %+v, %v", s, err)
		}
		held, ok := errors.AsType[*control.HeldError](l.Agent(nothing))
		if !ok || !strings.Contains(held.Error(), "person has taken control") {
			t.Errorf("agent's input during a hold: %v", held)
		}
		if _, err := l.Look(); err == nil {
			t.Error("the agent may look during a hold")
		}
		if _, err := l.Take("bob", 0); err == nil {
			t.Error("two persons have control")
		}
		if err := l.Person("bob", nothing); err == nil {
			t.Error("bob's input went through under ann's hold")
		}
		if err := l.Person("ann", nothing); err != nil {
			t.Errorf("ann's input: %v", err)
		}
		l.GiveBack("bob")
		if l.State().Viewer != "ann" {
			t.Error("bob gave ann's control back")
		}
		l.GiveBack("ann")
		if err := l.Agent(nothing); !errors.Is(err, control.ErrLook) {
			t.Errorf("agent's input without a look: %v, want ErrLook", err)
		}
		look(t, l)
		if err := l.Agent(nothing); err != nil {
			t.Errorf("agent's input after a look: %v", err)
		}
		if err := l.Person("ann", nothing); !errors.Is(err, control.ErrNotHolder) {
			t.Errorf("ann's input after giving back: %v, want ErrNotHolder", err)
		}
	})
}

func TestLease_expires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := control.New()
		if _, err := l.Take("ann", time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second)
		if s, err := l.Extend("ann", time.Minute); err != nil || s.Left != time.Minute {
			t.Fatalf("Extend() = %+v, %v", s, err)
		}
		bell, stop := l.Watch()
		defer stop()
		time.Sleep(59 * time.Second)
		if !l.State().Held() {
			t.Fatal("the extended hold ended early")
		}
		select {
		case <-bell:
			t.Fatal("a change was rung before there was one")
		default:
		}
		<-bell // the end, by itself
		if s := l.State(); s.Held() || !s.Look {
			t.Errorf("after its time: %+v", s)
		}
		if _, err := l.Extend("ann", time.Minute); !errors.Is(err, control.ErrNotHolder) {
			t.Errorf("extending what has ended: %v", err)
		}
		if err := l.Agent(nothing); !errors.Is(err, control.ErrLook) {
			t.Errorf("agent after the end of a hold: %v, want ErrLook", err)
		}
		if s, _ := l.Take("bob", 24*time.Hour); s.Left != control.MaxHold {
			t.Errorf("a hold of a day lasts %v", s.Left)
		}
	})
}

func TestLease_lookThatAPersonInterrupted(t *testing.T) {
	l := control.New()
	k, err := l.Look()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Take("ann", time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := k.Done(); err == nil {
		t.Error("a look during which a person took control counts")
	}
	l.GiveBack("ann")
	if err := k.Done(); !errors.Is(err, control.ErrLook) {
		t.Errorf("a look from before the hold: %v, want ErrLook", err)
	}
	if err := l.Agent(nothing); !errors.Is(err, control.ErrLook) {
		t.Errorf("agent's input: %v, want ErrLook", err)
	}
}

// TestLease_interleavings plays 10,000 random mixes of an agent and two persons
// and checks what was sent against who had control.
func TestLease_interleavings(t *testing.T) {
	const rounds, steps = 10_000, 12
	for round := range rounds {
		seed := uint64(round)
		l := control.New()
		var (
			mu     sync.Mutex
			log    []string
			holder string
			looked = true
			fault  string
			wg     sync.WaitGroup
		)
		// note runs where the lease stands still or right after it changed, in the
		// order in which things took effect.
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, what)
			who, act, _ := strings.Cut(what, " ")
			switch {
			case what == "agent input" && holder != "":
				fault = "agent's input under " + holder + "'s hold"
			case what == "agent input" && !looked:
				fault = "agent's input without a look"
			case act == "input" && who != "agent" && holder != who:
				fault = who + "'s input without a hold"
			}
		}
		// A take or a return and its note are one step for the other persons. The
		// agent is not held up by it: a take is noted before its hold begins to
		// count, a return after.
		var turns sync.Mutex
		for _, person := range []string{"ann", "bob"} {
			r := rand.New(rand.NewPCG(seed, uint64(len(person)+int(person[0]))))
			wg.Go(func() {
				for range steps {
					switch r.IntN(3) {
					case 0:
						turns.Lock()
						if _, err := l.Take(person, time.Hour); err == nil {
							mu.Lock()
							holder, looked = person, false
							mu.Unlock()
						}
						turns.Unlock()
					case 1:
						l.Person(person, func() { note(person + " input") })
					case 2:
						turns.Lock()
						mu.Lock()
						if holder == person {
							holder = ""
						}
						mu.Unlock()
						l.GiveBack(person)
						turns.Unlock()
					}
				}
			})
		}
		r := rand.New(rand.NewPCG(seed, 1))
		wg.Go(func() {
			for range steps {
				if r.IntN(2) == 0 {
					l.Agent(func() { note("agent input") })
					continue
				}
				if k, err := l.Look(); err == nil {
					mu.Lock()
					before := looked
					looked = true
					mu.Unlock()
					if k.Done() != nil {
						mu.Lock()
						looked = before && holder == ""
						mu.Unlock()
					}
				}
			}
		})
		wg.Wait()
		if fault != "" {
			t.Fatalf("round %d: %s\n%s", round, fault, strings.Join(log, "\n"))
		}
	}
}

// Every change is told in order with its cause, also to who asks later.
func TestLease_changes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := control.New()
		l.GiveBack("ann") // who has nothing changes nothing
		l.Take("ann", time.Minute)
		l.Take("ann", 2*time.Minute)
		l.Take("bob", time.Minute) // refused
		l.Extend("ann", time.Minute)
		l.GiveBack("ann")
		l.Take("bob", time.Second)
		time.Sleep(time.Second)
		l.Take("ann", time.Minute)
		l.Leave("bob")
		l.Leave("ann")
		var got []string
		var third uint64
		for i, c := range l.Changes(0) {
			got = append(got, c.Viewer+" "+c.Cause)
			if over := c.Cause == control.GivenBack || c.Cause == control.Expired || c.Cause == control.Left; over != c.Until.IsZero() {
				t.Errorf("%+v", c)
			}
			if i == 2 {
				third = c.Seq
			}
		}
		want := "ann taken, ann extended, ann extended, ann given_back, bob taken, bob expired, ann taken, ann left"
		if strings.Join(got, ", ") != want {
			t.Errorf("changes: %s, want %s", strings.Join(got, ", "), want)
		}
		if after := l.Changes(third); len(after) != 5 || after[0].Cause != control.GivenBack {
			t.Errorf("after the third: %+v", after)
		}
		for range 300 {
			l.Take("ann", time.Minute)
		}
		if all := l.Changes(0); len(all) != 256 || all[255].Seq != 308 {
			t.Errorf("%d changes are kept, the last of them %d", len(all), all[len(all)-1].Seq)
		}
		l.Leave("ann")
	})
}

// Control of a browser that is let go of is nobody's, and stays so.
func TestLease_close(t *testing.T) {
	l := control.New()
	if _, err := l.Take("ann", time.Minute); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l.Close()
	for _, viewer := range []string{"ann", "bob"} {
		if s, err := l.Take(viewer, time.Minute); !errors.Is(err, control.ErrClosed) || s.Held() {
			t.Errorf("%s takes what is let go of: %+v, %v", viewer, s, err)
		}
	}
	if c := l.Changes(0); len(c) != 2 || c[1].Cause != control.Ended || c[1].Viewer != "ann" {
		t.Errorf("changes: %+v", c)
	}
}

// A part of a look is done as long as nobody has taken control since it began.
func TestLook_do(t *testing.T) {
	l := control.New()
	k, err := l.Look()
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	part := func() { done++ }
	if err := k.Do(part); err != nil || done != 1 {
		t.Errorf("a part of a look: %v, done %d times", err, done)
	}
	if _, err := l.Take("ann", time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := k.Do(part); !errors.Is(err, control.ErrHeld) {
		t.Errorf("while ann has control: %v", err)
	}
	l.GiveBack("ann")
	if err := k.Do(part); !errors.Is(err, control.ErrLook) {
		t.Errorf("of a look from before: %v", err)
	}
	if done != 1 {
		t.Errorf("done %d times", done)
	}
}

// What a person does waits for what the agent had begun, in its order and not for
// long; what they did in their time is done.
func TestLease_personWaitsForWhatWasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := control.New()
		var mu sync.Mutex // what waits is done by a timer
		var log []string
		person := func(what string) {
			t.Helper()
			err := l.Person("ann", func() {
				mu.Lock()
				defer mu.Unlock()
				log = append(log, what)
			})
			if err != nil {
				t.Error(err)
			}
		}
		is := func(want string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(log, " "); got != want {
				t.Errorf("done: %q, want %q", got, want)
			}
			log = nil
		}
		one, two := l.Begin(), l.Begin()
		l.Take("ann", time.Minute)
		person("a")
		person("b")
		one()
		one()
		is("")
		two()
		is("a b")
		person("c")
		is("c")

		three := l.Begin() // by an agent that has yet to hear that it is refused
		person("d")
		is("d")
		l.GiveBack("ann")
		l.Take("ann", time.Minute)
		person("e")
		l.GiveBack("ann") // that they are gone makes nothing of it come sooner
		is("")
		l.Take("ann", time.Minute)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		is("")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		is("e")
		person("f")
		is("f")
		l.GiveBack("ann")
		l.Take("ann", time.Minute)
		person("g")
		l.GiveBack("ann")
		l.After(func() { log = append(log, "its end") })
		is("")
		three()
		is("g its end")
		l.After(func() { log = append(log, "at once") })
		is("at once")

		four := l.Begin()
		l.Take("ann", time.Minute)
		answered := l.Sent()
		person("h")
		l.GiveBack("ann")
		look, err := l.Look()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		four()
		is("h")
		began := time.Now()
		time.AfterFunc(500*time.Millisecond, answered)
		if l.Settle(t.Context()); time.Since(began) != 500*time.Millisecond {
			t.Errorf("a look came %v after what waited, want it to be answered first", time.Since(began))
		}
		if err := look.Done(); err != nil {
			t.Fatal(err)
		}

		five := l.Begin() // of another agent
		defer five()
		l.Take("ann", time.Minute)
		person("i")
		l.GiveBack("ann")
		if look, err = l.Look(); err != nil {
			t.Fatal(err)
		}
		if err := look.Done(); err != nil {
			t.Fatal(err)
		}
		if err := l.Agent(func() { log = append(log, "an act") }); err != nil {
			t.Error(err)
		}
		is("i an act")
	})
}

// An agent waits for what a person has on its way to the page, and not for long.
func TestLease_agentWaitsForWhatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := control.New()
		waits := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			if l.Settle(t.Context()); time.Since(began) != want {
				t.Errorf("waited %v, want %v", time.Since(began), want)
			}
		}
		waits(0)
		one, two := l.Sent(), l.Sent()
		time.AfterFunc(100*time.Millisecond, one)
		time.AfterFunc(200*time.Millisecond, two)
		waits(200 * time.Millisecond)
		waits(0)
		l.Sent() // it is never answered: its tab was closed
		waits(time.Second)
		waits(0)
	})
}
