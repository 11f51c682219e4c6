package task

import (
	"time"

	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Status is what a task is doing, as its log says.
type Status string

// The statuses.
const (
	StatusIdle    Status = "idle"    // the next message starts a turn
	StatusRunning Status = "running" // a turn is under way
	StatusWaiting Status = "waiting" // a turn waits for a person's decision or answer
	StatusEnded   Status = "ended"   // completed, failed or cancelled; for ever
)

// Summary is the part of a State that lists and cards need. It stays small
// however long the log is.
type Summary struct {
	ID         string
	RootID     string
	Created    TaskCreated
	CreatedAt  time.Time
	UpdatedAt  time.Time
	Seq        int64 // of the last event folded
	Generation int64
	Status     Status
	Detail     string        // why it is in this status: an error, what it waits for
	Suspended  SuspendReason // of the last suspension; "" while it runs
	Title      string
	Bound      *TaskHostBound
	Sandbox    sandbox.Condition // the last state that the log knows; not what is shown
	Open       []string          // ids of calls started and not finished, in order
	Waiting    []Waiting
	Archived   bool
	Fork       *TaskForked        // where it comes from; nil for one that is no fork
	Retry      *LLMRetryScheduled // while the turn waits to ask its model again
	Failures   int                // requests to the model that have failed in a row and are made again
	Usage      llm.Usage          // of all requests, those that failed included
	CostUSD    *float64           // of Usage; nil when the price of some of it is not known
	Unpriced   bool               // Usage holds some whose price is not known
	End        Payload            // *TaskCompleted, *TaskFailed or *TaskCancelled
}

// Waiting is a call that waits for a person: for a decision whether it is made,
// or, when it is a question, for the answer.
type Waiting struct {
	TaskID   string // which may be a subtask's
	CallID   string
	Tool     string
	Reason   string    // why it needs a decision
	Question *Question // nil for a decision
}

// State is the fold of one task's events.
type State struct {
	Summary
	Calls map[string]*Call
	Seen  map[Actor]map[string]string // path to hash, as each actor last saw it

	Subtasks map[string]*Subtask // by the id of the call that each came of
	Handed   int                 // how many of them since a person last spoke

	messages []llm.Message // as appended, without tool results
}

// Subtask is what a task's own log knows of a task that it has spawned.
type Subtask struct {
	Spawned   SubtaskSpawned
	Completed *SubtaskCompleted // nil while it goes on
}

// Call is what the log knows of one tool call.
type Call struct {
	ID        string
	Started   *ToolCallStarted
	StartedAt time.Time // when that was recorded
	Result    *ToolResultRecorded
	Approval  *ToolCallApprovalRequested
	Decision  *ToolCallApprovalResolved
	Question  *UserQuestionRequested
	AskedAt   time.Time             // when that was recorded
	Answer    *UserQuestionAnswered // the first
	Finished  bool
}

// Fold returns the state that follows from events, in order. An event of an
// unknown kind is skipped: it came from a newer version and carries nothing
// that this one could act on.
func Fold(events []Event) *State {
	s := &State{}
	for _, e := range events {
		s.Apply(e)
	}
	return s
}

// Apply folds one more event.
func (s *State) Apply(e Event) {
	if s.Calls == nil {
		s.Calls = map[string]*Call{}
		s.Seen = map[Actor]map[string]string{ActorAgent: {}, ActorPerson: {}}
	}
	p, err := Decode(e)
	if err != nil {
		return
	}
	s.Summary.apply(e, p)
	switch p := p.(type) {
	case *MessagesAppended:
		s.messages = append(s.messages, p.Messages...)
		if p.byPerson() {
			s.Handed = 0
		}
	case *SubtaskSpawned:
		if s.Subtasks == nil {
			s.Subtasks = map[string]*Subtask{}
		}
		s.Subtasks[p.CallID] = &Subtask{Spawned: *p}
		s.Handed++
	case *SubtaskCompleted:
		if sub := s.Subtasks[p.CallID]; sub != nil {
			sub.Completed = p
		}
	case *ToolCallStarted:
		c := s.call(p.CallID)
		c.Started, c.StartedAt = p, e.At
	case *ToolResultRecorded:
		c := s.call(p.CallID)
		c.Result = p
		actor := ActorAgent // what a person looked at, the agent has not seen
		if c.Started != nil && c.Started.Actor == ActorPerson {
			actor = ActorPerson
		}
		for path, hash := range p.Files {
			s.Seen[actor][path] = hash
		}
	case *ToolCallFinished:
		s.call(p.CallID).Finished = true
	case *ToolCallApprovalRequested:
		s.call(p.CallID).Approval = p
	case *ToolCallApprovalResolved:
		s.call(p.CallID).Decision = p
	case *UserQuestionRequested:
		c := s.call(p.CallID)
		c.Question, c.AskedAt = p, e.At
	case *UserQuestionAnswered:
		if c := s.call(p.CallID); c.Answer == nil {
			c.Answer = p
		}
	}
}

// Unsettled returns the ids of the agent's calls that were started and have not
// finished. Those that a person made are not among them.
func (s *State) Unsettled() []string {
	var out []string
	for _, id := range s.Open {
		if c := s.Calls[id]; c == nil || c.Started == nil || c.Started.Actor != ActorPerson {
			out = append(out, id)
		}
	}
	return out
}

// Apply folds one more event.
func (s *Summary) Apply(e Event) {
	if p, err := Decode(e); err == nil {
		s.apply(e, p)
	}
}

// ApplySubtask folds an event of a task that this one, or one below it, has
// spawned: what that uses is this one's too.
func (s *Summary) ApplySubtask(e Event) {
	s.Seq, s.UpdatedAt = e.Seq, e.At
	if e.Kind != KindLLMRequestFinished {
		return
	}
	if p, err := Decode(e); err == nil {
		s.spend(p.(*LLMRequestFinished))
	}
}

func (s *Summary) apply(e Event, p Payload) {
	s.Seq, s.UpdatedAt = e.Seq, e.At
	switch p := p.(type) {
	case *TaskCreated:
		s.ID, s.RootID, s.Created, s.CreatedAt = e.TaskID, e.RootTaskID, *p, e.At
		s.Title, s.Status = p.Title, StatusIdle
	case *TaskRenamed:
		s.Title = p.Title
	case *LeaseGranted:
		s.Generation = p.Generation
	case *TaskHostBound:
		s.Bound = p
		if s.Status == StatusIdle {
			s.Detail = "" // what kept it from having a place is over
			if s.Suspended == NoSandbox {
				s.Suspended = ""
			}
		}
	case *SandboxStateChanged:
		if s.Bound == nil || p.Ref == "" || p.Ref == s.Bound.ExecEnvRef {
			s.Sandbox = p.Condition
		}
	case *TaskArchived:
		s.Archived = p.Archived
	case *TaskForked:
		if p.ForkID == e.RootTaskID {
			s.Fork = p
		}
	case *MessagesAppended:
		if p.byPerson() {
			s.patient() // it is worth asking at once
		}
	case *LLMRequestStarted:
		s.Retry = nil
	case *LLMRequestFinished:
		if p.Error == "" {
			s.patient()
		}
		s.spend(p)
	case *LLMRetryScheduled:
		s.Retry, s.Failures = p, p.Attempt
	case *TaskWoken:
		s.patient()
		s.Status, s.Detail, s.Suspended = StatusRunning, "", ""
	case *TaskSuspended:
		s.patient()
		s.Status, s.Detail, s.Suspended = StatusIdle, p.Detail, p.Reason
		if p.Reason == WaitingHuman && p.WakeOn != WakeNextGoal {
			s.Status = StatusWaiting
		}
	case *ToolCallStarted:
		s.Open = append(without(s.Open, p.CallID), p.CallID)
	case *ToolCallFinished:
		s.Open = without(s.Open, p.CallID)
	case *ToolCallApprovalRequested:
		s.Waiting = append(s.waitingWithout(p.CallID), Waiting{TaskID: e.TaskID, CallID: p.CallID, Tool: p.Tool, Reason: p.Reason})
	case *UserQuestionRequested:
		s.Waiting = append(s.waitingWithout(p.CallID), Waiting{TaskID: e.TaskID, CallID: p.CallID, Tool: p.Tool, Question: &p.Question})
	case *ToolCallApprovalResolved:
		s.Waiting = s.waitingWithout(p.CallID)
	case *UserQuestionAnswered:
		s.Waiting = s.waitingWithout(p.CallID)
	case *ToolResultRecorded:
		s.Waiting = s.waitingWithout(p.CallID)
	case *TaskCompleted, *TaskFailed, *TaskCancelled:
		s.End = p
	}
	if s.End != nil {
		s.Status = StatusEnded
	}
}

// patient forgets that requests to the model have failed.
func (s *Summary) patient() { s.Retry, s.Failures = nil, 0 }

// spend adds up what a request has used. A sum of which a part is not known is
// not known.
func (s *Summary) spend(p *LLMRequestFinished) {
	if p.Usage == (llm.Usage{}) {
		return
	}
	s.Usage = s.Usage.Add(p.Usage)
	if s.Unpriced = s.Unpriced || p.CostUSD == nil; s.Unpriced {
		s.CostUSD = nil
		return
	}
	sum := *p.CostUSD
	if s.CostUSD != nil {
		sum += *s.CostUSD
	}
	s.CostUSD = &sum // a copy of the Summary keeps its own
}

// byPerson reports whether a person wrote it.
func (p *MessagesAppended) byPerson() bool {
	return !p.Notice && len(p.Messages) > 0 && p.Messages[0].Role == llm.RoleUser
}

func (s *Summary) waitingWithout(callID string) []Waiting {
	var out []Waiting
	for _, w := range s.Waiting {
		if w.CallID != callID {
			out = append(out, w)
		}
	}
	return out
}

// WakeNextGoal is the WakeOn of a task that waits for its next message.
const WakeNextGoal = "next-goal"

// WakeApproval returns the WakeOn of a task that waits for a decision.
func WakeApproval(callID string) string { return "approval-" + callID }

// WakeQuestion returns the WakeOn of a task that waits for an answer.
func WakeQuestion(callID string) string { return "question-" + callID }

func (s *State) call(id string) *Call {
	c, ok := s.Calls[id]
	if !ok {
		c = &Call{ID: id}
		s.Calls[id] = c
	}
	return c
}

// PendingUses returns the tool calls that the last answer of the model asked
// for and that have no result yet.
func (s *State) PendingUses() []llm.Use {
	var pending []llm.Use
	for i := len(s.messages) - 1; i >= 0; i-- {
		if s.messages[i].Role != llm.RoleAssistant {
			continue
		}
		for _, b := range s.messages[i].Blocks {
			if b.Use == nil {
				continue
			}
			if c := s.Calls[b.Use.ID]; c == nil || c.Result == nil {
				pending = append(pending, *b.Use)
			}
		}
		break
	}
	return pending
}

// Conversation returns the messages for a model: every tool call is followed
// at once by its result, whatever was said meanwhile.
func (s *State) Conversation() []llm.Message {
	var out []llm.Message
	add := func(m llm.Message) {
		if n := len(out); n > 0 && out[n-1].Role == m.Role {
			out[n-1].Blocks = append(out[n-1].Blocks[:len(out[n-1].Blocks):len(out[n-1].Blocks)], m.Blocks...)
			return
		}
		out = append(out, m)
	}
	for _, m := range s.messages {
		add(m)
		if m.Role != llm.RoleAssistant {
			continue
		}
		var results []llm.Block
		for _, b := range m.Blocks {
			if b.Use == nil {
				continue
			}
			r := &llm.Result{ID: b.Use.ID, Text: "No result was recorded.", IsError: true}
			if c := s.Calls[b.Use.ID]; c != nil && c.Result != nil {
				r.Text, r.Images, r.IsError = c.Result.Text, c.Result.Images, c.Result.Status != CallOK
			}
			results = append(results, llm.Block{Result: r})
		}
		if results != nil {
			add(llm.Message{Role: llm.RoleUser, Blocks: results})
		}
	}
	return out
}

// NeedsModel reports whether it is the model's turn to speak: the last word is
// a person's, a notice's or a tool's.
func (s *State) NeedsModel() bool {
	c := s.Conversation()
	return len(c) > 0 && c[len(c)-1].Role == llm.RoleUser && len(s.PendingUses()) == 0
}

// LastText returns the text of the model's last answer.
func (s *State) LastText() string {
	for i := len(s.messages) - 1; i >= 0; i-- {
		if s.messages[i].Role != llm.RoleAssistant {
			continue
		}
		text := ""
		for _, b := range s.messages[i].Blocks {
			text += b.Text
		}
		return text
	}
	return ""
}

func without(ids []string, id string) []string {
	var out []string
	for _, x := range ids {
		if x != id {
			out = append(out, x)
		}
	}
	return out
}
