package task_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/task"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// history makes the log of task "t" from payloads: one event a second, from seq 1.
func history(t testing.TB, payloads ...task.Payload) []task.Event {
	t.Helper()
	var events []task.Event
	for i, p := range payloads {
		e, err := task.Encode("t", "t", 0, start.Add(time.Duration(i)*time.Second), p)
		if err != nil {
			t.Fatal(err)
		}
		e.Seq = int64(i + 1)
		events = append(events, e)
	}
	return events
}

func said(role llm.Role, blocks ...llm.Block) task.MessagesAppended {
	return task.MessagesAppended{Messages: []llm.Message{{Role: role, Blocks: blocks}}}
}

func text(s string) llm.Block { return llm.Block{Text: s} }

func use(id string) llm.Block {
	return llm.Block{Use: &llm.Use{ID: id, Name: "Bash", Input: json.RawMessage(`{}`)}}
}

func TestFold_status(t *testing.T) {
	created := task.TaskCreated{Title: "T"}
	tests := []struct {
		name string
		log  []task.Payload
		want task.Status
		why  string
	}{
		{"created", []task.Payload{created}, task.StatusIdle, ""},
		{"woken", []task.Payload{created, task.TaskWoken{}}, task.StatusRunning, ""},
		{"a turn is over",
			[]task.Payload{created, task.TaskWoken{}, task.TaskSuspended{Reason: task.WaitingHuman, WakeOn: task.WakeNextGoal}}, task.StatusIdle, ""},
		{"an approval is awaited",
			[]task.Payload{created, task.TaskWoken{}, task.TaskSuspended{Reason: task.WaitingHuman, WakeOn: task.WakeApproval("c"), Detail: "Bash"}}, task.StatusWaiting, "Bash"},
		{"and given",
			[]task.Payload{created, task.TaskWoken{}, task.TaskSuspended{Reason: task.WaitingHuman, WakeOn: task.WakeApproval("c"), Detail: "Bash"}, task.TaskWoken{}}, task.StatusRunning, ""},
		{"interrupted",
			[]task.Payload{created, task.TaskWoken{}, task.TurnInterrupted{}, task.TaskSuspended{Reason: task.Interrupted, WakeOn: task.WakeNextGoal}}, task.StatusIdle, ""},
		{"a turn failed",
			[]task.Payload{created, task.TaskWoken{}, task.TaskSuspended{Reason: task.TurnFailed, Detail: "401"}}, task.StatusIdle, "401"},
		{"completed", []task.Payload{created, task.TaskWoken{}, task.TaskCompleted{Text: "done"}}, task.StatusEnded, ""},
		{"failed", []task.Payload{created, task.TaskWoken{}, task.TaskFailed{Error: "x"}}, task.StatusEnded, ""},
		{"cancelled", []task.Payload{created, task.TaskCancelled{}}, task.StatusEnded, ""},
		{"ended for ever", []task.Payload{created, task.TaskCompleted{}, task.TaskWoken{}, task.TaskSuspended{}}, task.StatusEnded, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := task.Fold(history(t, tt.log...))
			if s.Status != tt.want || s.Detail != tt.why {
				t.Errorf("Fold() = %s (%q), want %s (%q)", s.Status, s.Detail, tt.want, tt.why)
			}
			if s.ID != "t" || s.Seq != int64(len(tt.log)) || !s.CreatedAt.Equal(start) {
				t.Errorf("Fold() = id %q, seq %d, created %v", s.ID, s.Seq, s.CreatedAt)
			}
			if (s.End != nil) != (tt.want == task.StatusEnded) {
				t.Errorf("End = %v in status %s", s.End, s.Status)
			}
		})
	}
}

func TestFold_binding(t *testing.T) {
	lost := sandbox.Condition{Value: sandbox.StateLost}
	ready := sandbox.Condition{Value: sandbox.StateReady}
	s := task.Fold(history(t,
		task.TaskCreated{},
		task.LeaseGranted{Generation: 3},
		task.TaskHostBound{ExecEnvRef: "docker://a#1"},
		task.SandboxStateChanged{Ref: "docker://a#1", Condition: lost},
		task.TaskHostBound{ExecEnvRef: "docker://a#2", Reprovision: true},
		task.SandboxStateChanged{Ref: "docker://a#2", Condition: ready},
		task.SandboxStateChanged{Ref: "docker://a#1", Condition: lost}, // late news of the old one
	))
	if s.Bound == nil || s.Bound.ExecEnvRef != "docker://a#2" {
		t.Errorf("Bound = %+v, want the last binding", s.Bound)
	}
	if s.Sandbox != ready || s.Generation != 3 {
		t.Errorf("Sandbox = %+v, generation %d, want ready, 3", s.Sandbox, s.Generation)
	}
}

func TestFold_calls(t *testing.T) {
	s := task.Fold(history(t,
		task.TaskCreated{},
		said(llm.RoleAssistant, use("a"), use("b"), use("c")),
		task.ToolCallStarted{CallID: "a"},
		task.ToolCallStarted{CallID: "b"},
		task.ToolCallApprovalRequested{CallID: "c"},
		task.ToolResultRecorded{CallID: "a", Status: task.CallOK},
		task.ToolCallFinished{CallID: "a"},
		task.ToolResultRecorded{CallID: "b", Status: task.CallOK},
		task.ToolCallApprovalResolved{CallID: "c", Allow: true},
	))
	if diff := cmp.Diff([]string{"b"}, s.Open); diff != "" {
		t.Errorf("Open (-want +got):\n%s", diff)
	}
	if a := s.Calls["a"]; a == nil || !a.Finished || a.Result == nil {
		t.Errorf("call a = %+v, want finished", a)
	}
	if c := s.Calls["c"]; c == nil || c.Approval == nil || c.Decision == nil || !c.Decision.Allow || c.Started != nil {
		t.Errorf("call c = %+v, want allowed and not started", c)
	}
	if len(s.Waiting) != 0 {
		t.Errorf("Waiting = %+v after the decision", s.Waiting)
	}
}

func TestFold_seen(t *testing.T) {
	s := task.Fold(history(t,
		task.TaskCreated{},
		task.ToolCallStarted{CallID: "a", Actor: task.ActorAgent},
		task.ToolResultRecorded{CallID: "a", Files: map[string]string{"/x": "1", "/y": "1"}},
		task.ToolCallStarted{CallID: "p", Actor: task.ActorPerson},
		task.ToolResultRecorded{CallID: "p", Files: map[string]string{"/x": "2"}},
		task.ToolCallStarted{CallID: "b", Actor: task.ActorAgent},
		task.ToolResultRecorded{CallID: "b", Files: map[string]string{"/y": "3"}},
	))
	want := map[task.Actor]map[string]string{
		task.ActorAgent:  {"/x": "1", "/y": "3"},
		task.ActorPerson: {"/x": "2"},
	}
	if diff := cmp.Diff(want, s.Seen); diff != "" {
		t.Errorf("Seen (-want +got):\n%s", diff)
	}
}

func TestFold_waiting(t *testing.T) {
	log := []task.Payload{task.TaskCreated{}}
	steps := []struct {
		next task.Payload
		want []string
	}{
		{task.ToolCallApprovalRequested{CallID: "a"}, []string{"a"}},
		{task.ToolCallApprovalRequested{CallID: "b"}, []string{"a", "b"}},
		{task.ToolCallApprovalRequested{CallID: "a"}, []string{"b", "a"}}, // asked again
		{task.ToolCallApprovalResolved{CallID: "b"}, []string{"a"}},
		{task.ToolResultRecorded{CallID: "a"}, nil}, // answered without a decision
		{task.UserQuestionRequested{CallID: "q"}, []string{"q"}},
		{task.ToolCallApprovalRequested{CallID: "c"}, []string{"q", "c"}},
		{task.UserQuestionAnswered{CallID: "q"}, []string{"c"}},
		{task.UserQuestionRequested{CallID: "r"}, []string{"c", "r"}},
		{task.ToolResultRecorded{CallID: "r"}, []string{"c"}}, // stopped
	}
	for i, st := range steps {
		log = append(log, st.next)
		var got []string
		for _, w := range task.Fold(history(t, log...)).Waiting {
			got = append(got, w.CallID)
		}
		if diff := cmp.Diff(st.want, got); diff != "" {
			t.Errorf("step %d: Waiting (-want +got):\n%s", i, diff)
		}
	}
}

// The first answer to a question counts.
func TestFold_question(t *testing.T) {
	s := task.Fold(history(t, task.TaskCreated{}, task.TaskWoken{},
		task.UserQuestionRequested{CallID: "q", Tool: "AskUser", Question: task.Question{Kind: task.QuestionText, Text: "Which?"}},
		task.TaskSuspended{Reason: task.WaitingHuman, WakeOn: task.WakeQuestion("q")}))
	if s.Status != task.StatusWaiting || len(s.Waiting) != 1 || s.Waiting[0].Question == nil || s.Waiting[0].Question.Text != "Which?" {
		t.Errorf("%s waits for %+v", s.Status, s.Waiting)
	}
	for _, e := range history(t, task.UserQuestionAnswered{CallID: "q", Text: "this"}, task.UserQuestionAnswered{CallID: "q", Text: "that"}) {
		s.Apply(e)
	}
	if c := s.Calls["q"]; c.Answer == nil || c.Answer.Text != "this" || !c.AskedAt.Equal(start.Add(2*time.Second)) {
		t.Errorf("the call is %+v, want the first answer", c)
	}
}

// TestSummary_followsState holds that a list, which folds summaries, and a
// session, which folds states, never say two things.
func TestSummary_followsState(t *testing.T) {
	var summary task.Summary
	state := &task.State{}
	for _, e := range history(t,
		task.TaskCreated{Title: "T"}, task.TaskWoken{}, said(llm.RoleAssistant, use("a")),
		task.ToolCallApprovalRequested{CallID: "a"}, task.TaskSuspended{Reason: task.WaitingHuman, WakeOn: task.WakeApproval("a")},
		task.ToolCallApprovalResolved{CallID: "a", Allow: true}, task.TaskWoken{}, task.ToolCallStarted{CallID: "a"},
		task.ToolResultRecorded{CallID: "a"}, task.ToolCallFinished{CallID: "a"},
		task.UserQuestionRequested{CallID: "q"}, task.TaskSuspended{Reason: task.WaitingHuman, WakeOn: task.WakeQuestion("q")},
		task.UserQuestionAnswered{CallID: "q"}, task.TaskWoken{}, task.TaskRenamed{Title: "U"}, task.TaskCompleted{},
	) {
		summary.Apply(e)
		state.Apply(e)
		if diff := cmp.Diff(state.Summary, summary); diff != "" {
			t.Errorf("after %s (-state +summary):\n%s", e.Kind, diff)
		}
	}
	if summary.Title != "U" {
		t.Errorf("Title = %q, want the new one", summary.Title)
	}
}

// Usage is that of the requests, counted once, those that failed included.
func TestFold_subtasks(t *testing.T) {
	s := task.Fold(history(t, task.TaskCreated{}, said(llm.RoleUser, text("go")), task.SubtaskSpawned{CallID: "c1", TaskID: "t1"}))
	if sub := s.Subtasks["c1"]; sub == nil || sub.Spawned.TaskID != "t1" || sub.Completed != nil || s.Handed != 1 {
		t.Errorf("started: %+v, %d handed on", sub, s.Handed)
	}
	s = task.Fold(history(t, task.TaskCreated{}, task.SubtaskSpawned{CallID: "c1", TaskID: "t1"},
		task.SubtaskCompleted{CallID: "c1", Status: task.CallOK}, said(llm.RoleUser, text("more"))))
	if sub := s.Subtasks["c1"]; sub == nil || sub.Completed == nil || s.Handed != 0 {
		t.Errorf("ended: %+v, %d handed on since the last message", sub, s.Handed)
	}
}

// What a subtask uses is its parent's too, and nothing else of its log is.
func TestSummary_applySubtask(t *testing.T) {
	s := task.Fold(history(t, task.TaskCreated{}, task.TaskWoken{})).Summary
	for i, p := range []task.Payload{task.LLMRequestFinished{Usage: llm.Usage{Input: 3}}, task.TaskCompleted{}, task.TaskSuspended{}} {
		e, err := task.Encode("t", "below", 0, start, p)
		if err != nil {
			t.Fatal(err)
		}
		e.Seq = int64(10 + i)
		s.ApplySubtask(e)
	}
	if s.Usage.Input != 3 || s.Status != task.StatusRunning || s.Seq != 12 {
		t.Errorf("summary = %+v", s)
	}
}

func TestFold_usage(t *testing.T) {
	usage := llm.Usage{Input: 10, Output: 2}
	cost := func(x float64) *float64 { return &x }
	asked := func(c *float64) task.LLMRequestFinished { return task.LLMRequestFinished{Usage: usage, CostUSD: c} }
	answer := said(llm.RoleAssistant, text("a"))
	answer.Usage = usage
	for _, tt := range []struct {
		name string
		log  []task.Payload
		want llm.Usage
		cost *float64
	}{
		{"none", nil, llm.Usage{}, nil},
		{"answers", []task.Payload{asked(cost(0.25)), answer, asked(cost(0.5)), answer}, llm.Usage{Input: 20, Output: 4}, cost(0.75)},
		{"one failed", []task.Payload{task.LLMRequestFinished{Error: "no", Usage: usage, CostUSD: cost(0.25)}, asked(cost(0.5)), answer}, llm.Usage{Input: 20, Output: 4}, cost(0.75)},
		{"one failed and says nothing", []task.Payload{task.LLMRequestFinished{Error: "no"}, asked(cost(0.5)), answer}, usage, cost(0.5)},
		{"free", []task.Payload{asked(cost(0)), answer}, usage, cost(0)},
		{"some has no price", []task.Payload{asked(cost(1)), answer, asked(nil), answer, asked(cost(1)), answer}, llm.Usage{Input: 30, Output: 6}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := task.Fold(history(t, append([]task.Payload{task.TaskCreated{}}, tt.log...)...))
			if s.Usage != tt.want {
				t.Errorf("Usage = %+v, want %+v", s.Usage, tt.want)
			}
			if diff := cmp.Diff(tt.cost, s.CostUSD); diff != "" {
				t.Errorf("CostUSD (-want +got):\n%s", diff)
			}
		})
	}
}

// A Summary that was copied does not change when the log goes on.
func TestFold_costOfACopy(t *testing.T) {
	half := 0.5
	events := history(t, task.TaskCreated{}, task.LLMRequestFinished{Usage: llm.Usage{Input: 1}, CostUSD: &half},
		task.LLMRequestFinished{Usage: llm.Usage{Input: 1}, CostUSD: &half})
	s := task.Fold(events[:2])
	before := s.Summary
	s.Apply(events[2])
	if *before.CostUSD != 0.5 || *s.CostUSD != 1 {
		t.Errorf("CostUSD = %v before and %v after, want 0.5 and 1", *before.CostUSD, *s.CostUSD)
	}
}

func TestFold_retry(t *testing.T) {
	failed := task.LLMRequestFinished{Error: "overloaded"}
	wait := func(n int) task.LLMRetryScheduled { return task.LLMRetryScheduled{Attempt: n, Attempts: 6} }
	begun := []task.Payload{task.TaskCreated{}, said(llm.RoleUser, text("go")), task.TaskWoken{}, task.LLMRequestStarted{}, failed, wait(1), task.LLMRequestStarted{}, failed, wait(2)}
	notice := said(llm.RoleUser, text("a word of the host"))
	notice.Notice = true
	for _, tt := range []struct {
		name     string
		next     []task.Payload
		waits    bool
		failures int
	}{
		{"waiting", nil, true, 2},
		{"a host's word", []task.Payload{notice}, true, 2},
		{"taken up", []task.Payload{task.LeaseGranted{Generation: 2}}, true, 2},
		{"asking", []task.Payload{task.LLMRequestStarted{}}, false, 2},
		{"answered", []task.Payload{task.LLMRequestStarted{}, task.LLMRequestFinished{}}, false, 0},
		{"a person's word", []task.Payload{said(llm.RoleUser, text("now"))}, false, 0},
		{"woken", []task.Payload{task.TaskWoken{Cause: "retry"}}, false, 0},
		{"stopped", []task.Payload{task.TaskSuspended{Reason: task.Interrupted, WakeOn: task.WakeNextGoal}}, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := task.Fold(history(t, append(begun[:len(begun):len(begun)], tt.next...)...))
			if (s.Retry != nil) != tt.waits || s.Failures != tt.failures {
				t.Errorf("Retry = %+v after %d failures; want waiting %v after %d", s.Retry, s.Failures, tt.waits, tt.failures)
			}
		})
	}
}

func TestFold_archived(t *testing.T) {
	events := history(t, task.TaskCreated{}, task.TaskCompleted{}, task.TaskArchived{Archived: true}, task.TaskArchived{})
	if s := task.Fold(events[:3]); !s.Archived || s.Status != task.StatusEnded {
		t.Errorf("archived %v, %s; want an ended task out of sight", s.Archived, s.Status)
	}
	if s := task.Fold(events); s.Archived {
		t.Error("a task that was put back is still archived")
	}
}

func TestPendingUses(t *testing.T) {
	ids := func(s *task.State) (ids []string) {
		for _, u := range s.PendingUses() {
			ids = append(ids, u.ID)
		}
		return ids
	}
	log := []task.Payload{task.TaskCreated{}, said(llm.RoleUser, text("go"))}
	steps := []struct {
		name  string
		next  task.Payload
		want  []string
		model bool // it is the model's turn
	}{
		{"two uses", said(llm.RoleAssistant, text("hm"), use("a"), use("b")), []string{"a", "b"}, false},
		{"one started", task.ToolCallStarted{CallID: "a"}, []string{"a", "b"}, false},
		{"one answered", task.ToolResultRecorded{CallID: "a", Status: task.CallOK}, []string{"b"}, false},
		{"a person speaks", said(llm.RoleUser, text("also")), []string{"b"}, false},
		{"both answered", task.ToolResultRecorded{CallID: "b", Status: task.CallError}, nil, true},
		{"no use", said(llm.RoleAssistant, text("done")), nil, false},
		{"a person again", said(llm.RoleUser, text("more")), nil, true},
	}
	if s := task.Fold(history(t, log...)); !s.NeedsModel() || s.PendingUses() != nil {
		t.Errorf("after the goal: NeedsModel() = %v, PendingUses() = %v", s.NeedsModel(), s.PendingUses())
	}
	for _, st := range steps {
		log = append(log, st.next)
		s := task.Fold(history(t, log...))
		if diff := cmp.Diff(st.want, ids(s)); diff != "" {
			t.Errorf("%s: PendingUses() (-want +got):\n%s", st.name, diff)
		}
		if got := s.NeedsModel(); got != st.model {
			t.Errorf("%s: NeedsModel() = %v, want %v", st.name, got, st.model)
		}
	}
	s := task.Fold(history(t, log...))
	if got := s.LastText(); got != "done" {
		t.Errorf("LastText() = %q, want done", got)
	}
}

func TestConversation(t *testing.T) {
	result := func(id, text string, isError bool) llm.Block {
		return llm.Block{Result: &llm.Result{ID: id, Text: text, IsError: isError}}
	}
	s := task.Fold(history(t,
		task.TaskCreated{},
		said(llm.RoleUser, text("go")),
		said(llm.RoleAssistant, text("hm"), use("a"), use("b"), use("c")),
		said(llm.RoleUser, text("wait, also this")), // said while the calls ran
		task.ToolResultRecorded{CallID: "b", Text: "B", Status: task.CallTimeout},
		task.ToolResultRecorded{CallID: "a", Text: "A", Status: task.CallOK},
		said(llm.RoleAssistant, text("so")),
		said(llm.RoleAssistant, text("and so")),
	))
	want := []llm.Message{
		{Role: llm.RoleUser, Blocks: []llm.Block{text("go")}},
		{Role: llm.RoleAssistant, Blocks: []llm.Block{text("hm"), use("a"), use("b"), use("c")}},
		{Role: llm.RoleUser, Blocks: []llm.Block{
			result("a", "A", false), result("b", "B", true), result("c", "No result was recorded.", true),
			text("wait, also this"),
		}},
		{Role: llm.RoleAssistant, Blocks: []llm.Block{text("so"), text("and so")}},
	}
	if diff := cmp.Diff(want, s.Conversation()); diff != "" {
		t.Errorf("Conversation() (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, s.Conversation()); diff != "" {
		t.Errorf("a second Conversation() differs: the first changed the state:\n%s", diff)
	}
}

func TestConversation_empty(t *testing.T) {
	s := task.Fold(history(t, task.TaskCreated{}))
	if c := s.Conversation(); c != nil || s.NeedsModel() || s.LastText() != "" || s.PendingUses() != nil {
		t.Errorf("a new task has a conversation: %v", c)
	}
}

func TestFold_skipsWhatItCannotRead(t *testing.T) {
	log := history(t, task.TaskCreated{Title: "T"}, task.TaskWoken{}, task.TaskCompleted{})
	want := task.Fold(log)
	with := []task.Event{
		{Seq: 1, Kind: "FromTheFuture", Body: json.RawMessage(`{"x":1}`)},
		log[0], log[1],
		{Seq: 3, Kind: task.KindTaskFailed, Body: json.RawMessage(`[`)},
		log[2],
		{Seq: 99, Kind: "FromTheFuture", Body: json.RawMessage(`{"x":1}`)},
	}
	if diff := cmp.Diff(want, task.Fold(with), cmp.AllowUnexported(task.State{})); diff != "" {
		t.Errorf("Fold() with unreadable events (-want +got):\n%s", diff)
	}
}

func TestEncode_roundTripsEveryKind(t *testing.T) {
	payloads := []task.Payload{
		&task.TaskCreated{Title: "T", Spec: sandbox.Spec{Image: "i"}}, &task.TaskRenamed{Title: "U"}, &task.LeaseGranted{Generation: 2}, &task.TaskHostBound{ExecEnvRef: "docker://a#b"},
		&task.SandboxStateChanged{Detail: "d"}, &task.MessagesAppended{Notice: true}, &task.TaskWoken{Cause: "c"},
		&task.TaskSuspended{Reason: task.Interrupted}, &task.TurnInterrupted{Left: 1, Took: time.Second},
		&task.ToolCallStarted{CallID: "c", Input: json.RawMessage(`{"a":1}`)}, &task.ToolResultRecorded{CallID: "c", Text: "é", Display: json.RawMessage(`null`)},
		&task.ToolCallFinished{CallID: "c"}, &task.ToolCallDenied{Reason: "r"}, &task.ToolCallApprovalRequested{CallID: "c", Input: json.RawMessage(`{}`)},
		&task.UserQuestionRequested{CallID: "c", Question: task.Question{Kind: task.QuestionText, Text: "?", Options: []string{"a"}}},
		&task.UserQuestionAnswered{CallID: "c", Text: "a"},
		&task.ToolCallApprovalResolved{Allow: true}, &task.StepAttemptAbandoned{CallIDs: []string{"c"}}, &task.BrowserControlChanged{Viewer: "person", Cause: task.ControlTaken, Until: start}, &task.LLMRequestStarted{Model: "m"},
		&task.LLMRequestFinished{Error: "e"}, &task.TaskCompleted{Text: "t"}, &task.TaskFailed{Error: "e"}, &task.TaskCancelled{Reason: "r"},
	}
	for _, p := range payloads {
		e, err := task.Encode("r", "t", 1, start, p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := task.Decode(e)
		if err != nil {
			t.Errorf("Decode(%s) = %v", e.Kind, err)
		}
		if diff := cmp.Diff(p, got); diff != "" {
			t.Errorf("Decode(Encode(%s)) (-want +got):\n%s", e.Kind, diff)
		}
	}
}

func FuzzApply(f *testing.F) {
	for _, e := range history(f,
		task.TaskCreated{}, said(llm.RoleAssistant, use("a")), task.ToolCallStarted{CallID: "a"},
		task.ToolResultRecorded{CallID: "a", Files: map[string]string{"/x": "1"}}, task.ToolCallFinished{CallID: "a"},
		task.TaskSuspended{}, task.SandboxStateChanged{}, task.TaskCompleted{}) {
		f.Add(string(e.Kind), []byte(e.Body), string(task.KindTaskWoken), []byte(`{}`))
	}
	f.Add("FromTheFuture", []byte(`{}`), "", []byte(nil))
	f.Add(string(task.KindMessagesAppended), []byte(`{"messages":[{"role":"assistant","blocks":[{},{"use":null}]},{}]}`), string(task.KindToolCallFinished), []byte(`null`))
	f.Fuzz(func(t *testing.T, kind1 string, body1 []byte, kind2 string, body2 []byte) {
		s := &task.State{}
		for _, e := range []task.Event{
			{Seq: 1, Kind: task.Kind(kind1), Body: body1},
			{Seq: 2, Kind: task.Kind(kind2), Body: body2},
			{Seq: 3, Kind: task.Kind(kind1), Body: body1},
		} {
			ended := s.End != nil
			s.Apply(e)
			if ended && s.Status != task.StatusEnded {
				t.Errorf("%s brought an ended task back to %s", e.Kind, s.Status)
			}
		}
		s.PendingUses()
		s.NeedsModel()
		s.LastText()
		uses, results := 0, 0
		for _, m := range s.Conversation() {
			for _, b := range m.Blocks {
				if m.Role == llm.RoleAssistant && b.Use != nil {
					uses++
				}
				if m.Role != llm.RoleAssistant && b.Result != nil {
					results++
				}
			}
		}
		if results < uses {
			t.Errorf("%d uses have %d results", uses, results)
		}
	})
}
