package session

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/stream"
	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

func TestTitle(t *testing.T) {
	for _, c := range []struct {
		open Open
		want string
	}{
		{Open{}, "New session"},
		{Open{Title: "given", Goal: "goal"}, "given"},
		{Open{Goal: "  first line\nsecond"}, "first line"},
		{Open{Title: " of\tmany\nlines\x1b "}, "of many lines"},
		{Open{Title: "\n", Goal: "goal"}, "goal"},
		{Open{Goal: strings.Repeat("ж", 100)}, strings.Repeat("ж", 79) + "…"},
	} {
		if got := title(c.open); got != c.want {
			t.Errorf("title(%+v) = %q, want %q", c.open, got, c.want)
		}
	}
}

func TestLimit_fillsWhatTheGuestDoesNotSee(t *testing.T) {
	held := &sandbox.Description{Limits: map[string]string{"memory": "2g", "pids": "512"}}
	for name, c := range map[string]struct {
		of      *sandbox.Description
		st      wire.Stats
		memory  int64
		process int
	}{
		"nothing seen":  {held, wire.Stats{}, 2 << 30, 512},
		"seen":          {held, wire.Stats{MemoryLimit: 1 << 30, PIDsLimit: 100}, 1 << 30, 100},
		"no limit":      {&sandbox.Description{Limits: map[string]string{"memory": "max", "pids": "max"}}, wire.Stats{}, 0, 0},
		"not described": {nil, wire.Stats{}, 0, 0},
	} {
		if limit(&c.st, c.of); c.st.MemoryLimit != c.memory || c.st.PIDsLimit != c.process {
			t.Errorf("%s: limits %d and %d, want %d and %d", name, c.st.MemoryLimit, c.st.PIDsLimit, c.memory, c.process)
		}
	}
}

// A session that names one limit keeps the others that are configured.
func TestSpecOf_limits(t *testing.T) {
	s := &Service{o: Options{Default: Defaults{Spec: sandbox.Spec{Resources: map[string]string{"memory": "4g", "pids": "100"}}}}}
	for _, c := range []struct{ named, want map[string]string }{
		{nil, map[string]string{"memory": "4g", "pids": "100"}},
		{map[string]string{"cpus": "1"}, map[string]string{"memory": "4g", "pids": "100", "cpus": "1"}},
		{map[string]string{"memory": "1g"}, map[string]string{"memory": "1g", "pids": "100"}},
	} {
		spec, _, err := s.specOf(t.Context(), "s1", "/srv/work", sandbox.Spec{Wall: sandbox.WallDocker, Resources: c.named})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, spec.Resources); diff != "" {
			t.Errorf("limits of %v (-want +got):\n%s", c.named, diff)
		}
	}
	if n := len(s.o.Default.Spec.Resources); n != 2 {
		t.Errorf("the configuration has %d limits now", n)
	}
}

func TestLiveBuffers_keepTheNewestPart(t *testing.T) {
	b, o := newLiveBuffers(), stream.NewOutput("r", "r", "c")
	piece, at := []byte(strings.Repeat("日本語 ", 1000)), int64(0)
	for at < 20*liveTail {
		f := o.Frame("stdout", at, piece)
		b.add(f)
		at += int64(len(piece))
	}
	got := b.of("r")
	if len(got) != 1 {
		t.Fatalf("of() = %d parts, want 1", len(got))
	}
	p := got[0]
	if len(p.Data) > 2*liveTail || !utf8.ValidString(p.Data) {
		t.Errorf("kept %d bytes, valid UTF-8: %v", len(p.Data), utf8.ValidString(p.Data))
	}
	if p.End != at || p.Offset != p.End-int64(len(p.Data)) {
		t.Errorf("kept %d to %d with %d bytes, want the end at %d", p.Offset, p.End, len(p.Data), at)
	}
	b.settle("r", "", &task.ToolResultRecorded{CallID: "other"})
	if len(b.of("r")) != 1 {
		t.Error("another call's result dropped the part")
	}
	b.settle("r", "", &task.ToolResultRecorded{CallID: "c"})
	if len(b.of("r")) != 0 {
		t.Error("the part outlives its result")
	}
}

// Text ends with its request: it is in the log then, or was never said.
func TestLiveBuffers_textEndsWithItsRequest(t *testing.T) {
	b := newLiveBuffers()
	b.add(stream.Live{RootTaskID: "r", Kind: stream.LiveThinking, End: 2, Data: "hm"})
	b.add(stream.Live{RootTaskID: "r", Kind: stream.LiveText, End: 4, Data: "Half"})
	b.add(stream.Live{RootTaskID: "r", Kind: stream.LiveOutput, CallID: "c", Stream: "stdout", End: 1, Data: "x"})
	b.settle("r", "", task.LLMRequestStarted{})
	if got := b.of("r"); len(got) != 3 {
		t.Errorf("%d parts are left, want 3", len(got))
	}
	b.settle("r", "", task.LLMRequestFinished{Error: "overloaded"})
	if got := b.of("r"); len(got) != 1 || got[0].Kind != stream.LiveOutput {
		t.Errorf("left is %+v, want the call's output alone", got)
	}
	b.settle("r", "", task.ToolResultRecorded{CallID: "c"})
	if got := b.of("r"); len(got) != 0 {
		t.Errorf("left is %+v, want nothing", got)
	}
}

// What one task of a session says ends with its own requests.
func TestLiveBuffers_eachTaskForItself(t *testing.T) {
	b := newLiveBuffers()
	b.add(stream.Live{RootTaskID: "r", TaskID: "r", Kind: stream.LiveText, End: 1, Data: "a"})
	b.add(stream.Live{RootTaskID: "r", TaskID: "t", Kind: stream.LiveText, End: 1, Data: "b"})
	b.settle("r", "t", task.LLMRequestFinished{})
	if got := b.of("r"); len(got) != 1 || got[0].TaskID != "r" {
		t.Errorf("left is %+v, want the other task's text alone", got)
	}
}

// A gap, as after a slow reader, starts the part afresh: what is shown is
// contiguous.
func TestLiveBuffers_gap(t *testing.T) {
	b := newLiveBuffers()
	for _, f := range []stream.Live{
		{RootTaskID: "r", Kind: stream.LiveText, Offset: 0, End: 3, Data: "abc"},
		{RootTaskID: "r", Kind: stream.LiveText, Offset: 3, End: 6, Data: "def"},
		{RootTaskID: "r", Kind: stream.LiveText, Offset: 9, End: 12, Data: "jkl"},
	} {
		b.add(f)
	}
	if got := b.of("r"); len(got) != 1 || got[0].Data != "jkl" || got[0].Offset != 9 {
		t.Errorf("of() = %+v, want jkl at 9", got)
	}
}

func TestGoesOn(t *testing.T) {
	said := func(role llm.Role) []llm.Message { return []llm.Message{llm.Text(role, "x")} }
	for _, c := range []struct {
		name     string
		payloads []task.Payload
		want     bool
	}{
		{"a message came as the turn ended", []task.Payload{
			task.TaskCreated{}, task.MessagesAppended{Messages: said(llm.RoleUser)}, task.TaskWoken{},
			task.MessagesAppended{Messages: said(llm.RoleAssistant)}, task.MessagesAppended{Messages: said(llm.RoleUser)},
			task.TaskSuspended{Reason: task.WaitingHuman, WakeOn: task.WakeNextGoal},
		}, true},
		{"the model has had its last word", []task.Payload{
			task.TaskCreated{}, task.MessagesAppended{Messages: said(llm.RoleUser)}, task.TaskWoken{},
			task.MessagesAppended{Messages: said(llm.RoleAssistant)},
			task.TaskSuspended{Reason: task.WaitingHuman, WakeOn: task.WakeNextGoal},
		}, false},
		{"stopped before the model spoke", []task.Payload{
			task.TaskCreated{}, task.MessagesAppended{Messages: said(llm.RoleUser)}, task.TaskWoken{},
			task.TaskSuspended{Reason: task.Interrupted, WakeOn: task.WakeNextGoal},
		}, false},
		{"a model that failed", []task.Payload{
			task.TaskCreated{}, task.MessagesAppended{Messages: said(llm.RoleUser)}, task.TaskWoken{},
			task.TaskSuspended{Reason: task.TurnFailed, WakeOn: task.WakeNextGoal, Detail: "no"},
		}, false},
		{"a call whose sandbox did not answer", []task.Payload{
			task.TaskCreated{}, task.TaskWoken{}, task.ToolCallStarted{CallID: "c"},
			task.TaskSuspended{Reason: task.TurnFailed, WakeOn: task.WakeNextGoal, Detail: "silent"},
		}, true},
		{"a model that failed, beside a person's call", []task.Payload{
			task.TaskCreated{}, task.MessagesAppended{Messages: said(llm.RoleUser)}, task.TaskWoken{},
			task.ToolCallStarted{CallID: "c", Actor: task.ActorPerson},
			task.TaskSuspended{Reason: task.TurnFailed, WakeOn: task.WakeNextGoal, Detail: "no"},
		}, false},
		{"a decision that is awaited", []task.Payload{
			task.TaskCreated{}, task.MessagesAppended{Messages: said(llm.RoleUser)}, task.TaskWoken{},
			task.TaskSuspended{Reason: task.WaitingHuman, WakeOn: task.WakeApproval("c")},
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := &task.State{}
			for i, p := range c.payloads {
				e, err := task.Encode("r", "r", 1, st.UpdatedAt, p)
				if err != nil {
					t.Fatal(err)
				}
				e.Seq = int64(i + 1)
				st.Apply(e)
			}
			if got := goesOn(st); got != c.want {
				t.Errorf("goesOn() = %v, want %v", got, c.want)
			}
		})
	}
}
