package task

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/llm"
)

// logOf makes events of payloads, as a store numbers them.
func logOf(t *testing.T, payloads ...Payload) (events []Event) {
	t.Helper()
	for i, p := range payloads {
		e, err := Encode("s-source", "s-source", 3, time.Unix(int64(i), 0), p)
		if err != nil {
			t.Fatal(err)
		}
		e.Seq = int64(i + 1)
		events = append(events, e)
	}
	return events
}

func TestForkOf(t *testing.T) {
	use := func(ids ...string) *MessagesAppended {
		m := llm.Message{Role: llm.RoleAssistant}
		for _, id := range ids {
			m.Blocks = append(m.Blocks, llm.Block{Use: &llm.Use{ID: id, Name: "Bash", Input: json.RawMessage(`{}`)}})
		}
		return &MessagesAppended{Messages: []llm.Message{m}}
	}
	started := func(id string, a Actor) *ToolCallStarted { return &ToolCallStarted{CallID: id, Tool: "Bash", Actor: a} }
	cost := 1.5
	past := logOf(t,
		&TaskCreated{Title: "source"},
		&LeaseGranted{Generation: 3},
		&TaskHostBound{HostID: "h"},
		&MessagesAppended{Messages: []llm.Message{llm.Text(llm.RoleUser, "do it")}},
		&TaskWoken{Cause: "message"},
		&LLMRequestStarted{},
		&LLMRequestFinished{Usage: llm.Usage{Input: 10}, CostUSD: &cost},
		use("done"),
		started("done", ActorAgent), &ToolResultRecorded{CallID: "done", Status: CallOK, Text: "well", Files: map[string]string{"/f": "hash"}}, &ToolCallFinished{CallID: "done"},
		use("answered"),
		&UserQuestionRequested{CallID: "answered", Tool: "AskUser"}, &UserQuestionAnswered{CallID: "answered", Text: "yes"}, &ToolResultRecorded{CallID: "answered", Status: CallOK},
		use("running", "asked", "question", "never"),
		started("running", ActorAgent),
		&ToolCallApprovalRequested{CallID: "asked", Tool: "Bash"},
		&UserQuestionRequested{CallID: "question", Tool: "AskUser"},
		started("by-hand", ActorPerson),
		&TaskSuspended{Reason: WaitingHuman, WakeOn: WakeApproval("asked")},
	)
	own, err := ForkOf(past, "s-fork")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range own {
		if e.TaskID != "s-fork" || e.RootTaskID != "s-fork" || e.Generation != 0 || e.Seq != 0 {
			t.Errorf("%s is still %+v", e.Kind, e)
		}
	}
	created, err := Encode("s-fork", "s-fork", 0, time.Now(), &TaskCreated{Title: "fork"})
	if err != nil {
		t.Fatal(err)
	}
	st := Fold(append([]Event{created}, own...))
	if st.Status != StatusIdle || len(st.Open) > 0 || len(st.Waiting) > 0 || len(st.PendingUses()) > 0 || len(st.Unsettled()) > 0 {
		t.Errorf("the fork has something to do: %s, open %q, waiting %v, pending %v", st.Status, st.Open, st.Waiting, st.PendingUses())
	}
	if st.Bound != nil || st.Generation != 0 || st.Usage != (llm.Usage{}) || st.CostUSD != nil {
		t.Errorf("the fork has what is the source's: %+v, %d, %+v", st.Bound, st.Generation, st.Usage)
	}
	if st.Seen[ActorAgent]["/f"] != "hash" {
		t.Error("the fork does not know the files that were read")
	}
	for id, want := range map[string]CallStatus{"done": CallOK, "running": CallInterrupted, "asked": CallInterrupted, "answered": CallOK, "question": CallInterrupted, "never": CallInterrupted, "by-hand": CallInterrupted} {
		if c := st.Calls[id]; c == nil || c.Result == nil || c.Result.Status != want {
			t.Errorf("call %s: %+v, want %s", id, c, want)
		}
	}
	var roles []llm.Role
	for _, m := range st.Conversation() {
		roles = append(roles, m.Role)
	}
	if want := []llm.Role{llm.RoleUser, llm.RoleAssistant, llm.RoleUser, llm.RoleAssistant, llm.RoleUser, llm.RoleAssistant, llm.RoleUser}; !slices.Equal(roles, want) {
		t.Errorf("conversation %v, want %v", roles, want)
	}
}

func TestFork_isOfTheFork(t *testing.T) {
	forked := &TaskForked{SourceID: "s-source", ForkID: "s-fork", Seq: 7}
	if st := Fold(logOf(t, &TaskCreated{}, forked)); st.Fork != nil {
		t.Error("a source is shown as a fork")
	}
	forked.ForkID = "s-source"
	if st := Fold(logOf(t, &TaskCreated{}, forked)); st.Fork == nil || st.Fork.Seq != 7 {
		t.Errorf("a fork is shown as %+v", st.Fork)
	}
}
