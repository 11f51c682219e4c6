package agent_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/llm/script"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// faulty answers with its faults, one per request, and then with "At last.". It
// keeps when it was asked.
type faulty struct {
	faults []error
	asked  []time.Time
}

var _ llm.Model = (*faulty)(nil)

func (f *faulty) Stream(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		f.asked = append(f.asked, time.Now())
		if n := len(f.asked); n <= len(f.faults) {
			if yield(llm.Event{Text: "Half an ans"}, nil) {
				yield(llm.Event{Usage: llm.Usage{Input: 10}}, f.faults[n-1])
			}
			return
		}
		message := llm.Text(llm.RoleAssistant, "At last.")
		yield(llm.Event{Message: &message, Usage: llm.Usage{Input: 10, Output: 2}}, nil)
	}
}

func overloaded(n int) []error {
	return slices.Repeat([]error{&llm.Error{Kind: llm.Overloaded, Status: 529, Message: "the server is overloaded"}}, n)
}

func withFaults(faults ...error) (*faulty, agent.Options) {
	f := &faulty{faults: faults}
	o := options(nil)
	o.Model.Model = f
	return f, o
}

// waits returns the times between requests.
func (f *faulty) waits() []time.Duration {
	var out []time.Duration
	for i := 1; i < len(f.asked); i++ {
		out = append(out, f.asked[i].Sub(f.asked[i-1]))
	}
	return out
}

func TestRetry_asksAgainEverLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, o := withFaults(overloaded(5)...)
		j := newJournal(t)
		run(t, t.Context(), j, o, agent.Done)
		for i, wait := range f.waits() {
			if least := time.Second << i; wait < least || wait > least+least/4 {
				t.Errorf("wait %d took %v, want %v and up to a quarter more", i+1, wait, least)
			}
		}
		j.wantKinds(t,
			"LLMRequestStarted", "LLMRequestFinished", "LLMRetryScheduled 1/6",
			"LLMRequestStarted", "LLMRequestFinished", "LLMRetryScheduled 2/6",
			"LLMRequestStarted", "LLMRequestFinished", "LLMRetryScheduled 3/6",
			"LLMRequestStarted", "LLMRequestFinished", "LLMRetryScheduled 4/6",
			"LLMRequestStarted", "LLMRequestFinished", "LLMRetryScheduled 5/6",
			"LLMRequestStarted", "LLMRequestFinished", "MessagesAppended",
			"TaskSuspended waiting_human next-goal")
		if p := last[task.LLMRetryScheduled](t, j); p.Kind != llm.Overloaded || p.Detail != "the server is overloaded (HTTP 529)" {
			t.Errorf("scheduled = %+v", p)
		}
		if diff := cmp.Diff([]llm.Message{llm.Text(llm.RoleUser, "go"), llm.Text(llm.RoleAssistant, "At last.")}, j.State().Conversation()); diff != "" {
			t.Errorf("conversation (-want +got):\n%s", diff)
		}
		if want := (llm.Usage{Input: 60, Output: 2}); j.State().Usage != want {
			t.Errorf("usage = %+v, want %+v: what failed counts as well", j.State().Usage, want)
		}
	})
}

func TestRetry_parksAfterTheLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, o := withFaults(overloaded(7)...)
		o.OneShot = true // does not end a task that can go on
		j := newJournal(t)
		run(t, t.Context(), j, o, agent.Failed)
		s := last[task.TaskSuspended](t, j)
		if len(f.asked) != 6 || s.Reason != task.TurnFailed || s.WakeOn != task.WakeNextGoal || !strings.Contains(s.Detail, "overloaded (HTTP 529); it was asked 6 times. Retry") {
			t.Errorf("asked %d times, suspended = %+v", len(f.asked), s)
		}
		if j.State().Status != task.StatusIdle || j.State().Retry != nil {
			t.Errorf("status %s, retry %+v; want a parked turn", j.State().Status, j.State().Retry)
		}

		if err := j.Append(t.Context(), task.TaskWoken{Cause: "retry"}); err != nil {
			t.Fatal(err)
		}
		run(t, t.Context(), j, o, agent.Done) // all attempts afresh: the seventh fault is its first
		if got := last[task.TaskCompleted](t, j).Text; got != "At last." {
			t.Errorf("completed with %q", got)
		}
	})
}

func TestRetry_serverSaysWhen(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{
		20 * time.Second:  20 * time.Second,
		200 * time.Second: 200 * time.Second,
		time.Hour:         5 * time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			f, o := withFaults(&llm.Error{Kind: llm.RateLimited, Status: 429, RetryAfter: asked, Message: "slow down"})
			run(t, t.Context(), newJournal(t), o, agent.Done)
			if got := f.waits(); !slices.Equal(got, []time.Duration{want}) {
				t.Errorf("asked for %v: waited %v, want %v", asked, got, want)
			}
		})
	}
}

func TestRetry_onlyWhatMayPass(t *testing.T) {
	for kind, passes := range map[llm.ErrorKind]bool{
		llm.Overloaded: true, llm.RateLimited: true, llm.ServerError: true, llm.Network: true, llm.Malformed: true,
		llm.NoKey: false, llm.NoFunds: false, llm.BadRequest: false,
	} {
		synctest.Test(t, func(t *testing.T) {
			_, o := withFaults(&llm.Error{Kind: kind, Message: "set the key"})
			j := newJournal(t)
			if passes {
				run(t, t.Context(), j, o, agent.Done)
				return
			}
			run(t, t.Context(), j, o, agent.Failed)
			j.wantKinds(t, "LLMRequestStarted", "LLMRequestFinished", "TaskSuspended turn_failed next-goal")
			if s := last[task.TaskSuspended](t, j); s.Detail != "set the key; retry, or send a message, to go on from here" {
				t.Errorf("%s: detail = %q", kind, s.Detail)
			}
		})
	}
}

func TestRetry_incompleteAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		o := options(nil)
		o.Model.Model = model(func(_ context.Context, yield func(llm.Event, error) bool) {
			if n++; n == 1 {
				yield(llm.Event{Text: "Half"}, nil)
				return
			}
			message := llm.Text(llm.RoleAssistant, "Whole.")
			yield(llm.Event{Message: &message}, nil)
		})
		j := newJournal(t)
		run(t, t.Context(), j, o, agent.Done)
		if p := last[task.LLMRetryScheduled](t, j); p.Kind != llm.Malformed || !strings.Contains(p.Detail, "ended before it was complete") {
			t.Errorf("scheduled = %+v", p)
		}
	})
}

// waiting starts a turn that waits to ask its model again, and returns once it does.
func waiting(t *testing.T, ctx context.Context, j *journal, o agent.Options) <-chan agent.Outcome {
	t.Helper()
	ended := make(chan agent.Outcome, 1) // one turn, one outcome
	go func() {
		outcome, err := agent.Run(ctx, j, o)
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		ended <- outcome
	}()
	synctest.Wait()
	if j.again().state.Retry == nil {
		t.Fatalf("no wait; the log holds %q", j.kinds(t))
	}
	return ended
}

func TestRetry_stopEndsTheWaitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		_, o := withFaults(&llm.Error{Kind: llm.RateLimited, RetryAfter: time.Minute})
		j, begun := newJournal(t), time.Now()
		ended := waiting(t, ctx, j, o)
		stop(agent.ErrStop)
		if got := <-ended; got != agent.Interrupted || time.Since(begun) != 0 {
			t.Errorf("Run = %s after %v, want interrupted at once", got, time.Since(begun))
		}
		j.wantKinds(t, "LLMRequestStarted", "LLMRequestFinished", "LLMRetryScheduled 1/6",
			"TurnInterrupted", "TaskSuspended interrupted next-goal")
	})
}

func TestRetry_fencedInTheWaitWritesNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, fence := context.WithCancelCause(t.Context())
		_, o := withFaults(overloaded(1)...)
		j := newJournal(t)
		time.AfterFunc(time.Second/2, func() { fence(execenv.ErrFenced) })
		if _, err := agent.Run(ctx, j, o); !errors.Is(err, execenv.ErrFenced) || j.appends != 2 {
			t.Errorf("Run = %v after %d appends, want the fence after 2", err, j.appends)
		}
	})
}

// A process that ends in the wait leaves the schedule to the next one, which
// keeps the time and the count of attempts.
func TestRetry_nextProcessKeepsTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, shutdown := context.WithCancelCause(t.Context())
		f, o := withFaults(append(overloaded(1), &llm.Error{Kind: llm.RateLimited, RetryAfter: time.Minute})...)
		j := newJournal(t)
		ended := make(chan agent.Outcome, 1) // one turn, one outcome
		go func() { outcome, _ := agent.Run(ctx, j, o); ended <- outcome }()
		time.Sleep(10 * time.Second) // on the bubble's clock: into the second wait
		shutdown(agent.ErrShutdown)
		if got := <-ended; got != agent.Waiting || j.State().Status != task.StatusRunning {
			t.Errorf("Run = %s, status %s; want a turn that is under way", got, j.State().Status)
		}

		j = j.again()
		time.Sleep(10 * time.Second)
		run(t, t.Context(), j, o, agent.Done)
		if waits := f.waits(); len(waits) != 2 || waits[1] != time.Minute {
			t.Errorf("waits = %v, want the second to be a minute over both processes", waits)
		}
		if p := last[task.LLMRetryScheduled](t, j); p.Attempt != 2 {
			t.Errorf("attempt %d, want 2", p.Attempt)
		}

		// One that comes after the time asks at once, and goes on counting.
		f, o = withFaults(overloaded(7)...)
		j = newJournal(t, task.LLMRequestStarted{}, task.LLMRequestFinished{Error: "no"}, task.LLMRetryScheduled{Attempt: 4, Attempts: 6, At: time.Now().Add(-time.Hour)})
		begun := time.Now()
		run(t, t.Context(), j, o, agent.Failed)
		if len(f.asked) != 2 || !f.asked[0].Equal(begun) {
			t.Errorf("asked %d times, first after %v; want attempts 5 and 6, at once", len(f.asked), f.asked[0].Sub(begun))
		}
	})
}

func TestRetry_personWakesTheWait(t *testing.T) {
	for name, said := range map[string]task.Payload{
		"message": task.MessagesAppended{Messages: []llm.Message{llm.Text(llm.RoleUser, "are you there?")}},
		"retry":   task.TaskWoken{Cause: "retry"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wake := make(chan struct{}, 1)
				f, o := withFaults(&llm.Error{Kind: llm.RateLimited, RetryAfter: time.Minute})
				o.Wake = wake
				j := newJournal(t)
				ended := waiting(t, t.Context(), j, o)
				wake <- struct{}{} // nobody has said anything
				synctest.Wait()
				if len(f.asked) != 1 {
					t.Fatal("asked again though nobody said so")
				}
				j.say(t, said)
				wake <- struct{}{}
				if got := <-ended; got != agent.Done || f.waits()[0] != 0 {
					t.Errorf("Run = %s after a wait of %v, want it to be done at once", got, f.waits())
				}
			})
		})
	}
}

// A message that comes while the last attempt is made is not lost with it.
func TestRetry_messageWhileARequestFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, task.LLMRetryScheduled{Attempt: 5, Attempts: 6, At: time.Now()})
		f, o := withFaults(overloaded(1)...)
		o.Model.Model = model(func(ctx context.Context, yield func(llm.Event, error) bool) {
			if len(f.asked) == 0 {
				j.say(t, task.MessagesAppended{Messages: []llm.Message{llm.Text(llm.RoleUser, "wait for me")}})
			}
			for e, err := range f.Stream(ctx, llm.Request{}) {
				if !yield(e, err) {
					return
				}
			}
		})
		run(t, t.Context(), j, o, agent.Done)
		if p := last[task.LLMRetryScheduled](t, j); p.Attempt != 1 {
			t.Errorf("attempt %d after a message, want a new count", p.Attempt)
		}
	})
}

func TestRun_costs(t *testing.T) {
	j := newJournal(t)
	_, o := withFaults()
	o.Model.Price = &llm.Price{Input: 1e5, Output: 5e5}
	run(t, t.Context(), j, o, agent.Done)
	if got := j.State().CostUSD; got == nil || *got != 2 {
		t.Errorf("cost = %v, want 10 × 0.1 + 2 × 0.5", got)
	}
	j = newJournal(t)
	o.Model.Price = nil
	run(t, t.Context(), j, o, agent.Done)
	if got := j.State().CostUSD; got != nil || j.State().Usage.Input != 10 {
		t.Errorf("cost = %v of %+v, want none without a price", got, j.State().Usage)
	}
}

// asked keeps the last request and answers as a script.
type asked struct {
	*script.Model
	last llm.Request
}

func (a *asked) Stream(ctx context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	a.last = r
	return a.Model.Stream(ctx, r)
}

func TestRun_imagesForModelsThatSee(t *testing.T) {
	png := llm.Image{MediaType: "image/png", Data: []byte("png")}
	log := func() *journal {
		return newJournal(t,
			task.MessagesAppended{Messages: []llm.Message{{Role: llm.RoleUser, Blocks: []llm.Block{{Image: &png}}},
				{Role: llm.RoleAssistant, Blocks: []llm.Block{{Use: &llm.Use{ID: "r", Name: "Read", Input: []byte("{}")}}}}}},
			task.ToolResultRecorded{CallID: "r", Status: task.CallOK, Text: "a.png", Images: []llm.Image{png}})
	}
	o := options(nil)
	m := &asked{Model: script.New(script.Script{Steps: []script.Step{say("unused"), say("I see.")}})}
	o.Model = llm.Served{Model: m, Name: "eyes-1", MaxTokens: 99, Sees: true}
	j := log()
	run(t, t.Context(), j, o, agent.Done)
	if m.last.Model != "eyes-1" || m.last.MaxTokens != 99 || m.last.Messages[0].Blocks[1].Image == nil || len(m.last.Messages[2].Blocks[0].Result.Images) != 1 {
		t.Errorf("request = %+v", m.last)
	}
	o.Model.Sees = false
	j = log()
	run(t, t.Context(), j, o, agent.Done)
	const out = "[An image was left out: this model takes none.]"
	if b := m.last.Messages[0].Blocks[1]; b.Image != nil || b.Text != out {
		t.Errorf("a person's image became %+v", b)
	}
	if r := m.last.Messages[2].Blocks[0].Result; r.Images != nil || r.Text != "a.png\n"+out {
		t.Errorf("a result's image became %+v", r)
	}
	if r := j.State().Calls["r"].Result; len(r.Images) != 1 || r.Text != "a.png" {
		t.Errorf("the log's own result changed to %+v", r)
	}
}
