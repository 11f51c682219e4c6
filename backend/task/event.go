// Package task holds what can happen to a task and what follows from it: the
// [Event] kinds with their payloads, and the fold of a task's events to its
// [State]. It is pure: no clock, no I/O. The log is the truth; a State is only
// ever made by folding it.
package task

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/llm"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Kind names what happened. Kinds are never renamed: they are stored.
type Kind string

// Event is one entry of the log.
type Event struct {
	Seq        int64           `json:"seq"` // one sequence for the whole store
	TaskID     string          `json:"task_id"`
	RootTaskID string          `json:"root_task_id"`
	Kind       Kind            `json:"kind"`
	At         time.Time       `json:"at"`
	Generation int64           `json:"generation"` // of the take-up that wrote it; 0 for a person or the host
	Body       json.RawMessage `json:"body"`
}

// Payload is the body of an event.
type Payload interface{ EventKind() Kind }

// TaskCreated opens a task's log.
type TaskCreated struct {
	Title     string       `json:"title"`
	Goal      string       `json:"goal"`
	Model     string       `json:"model"`
	Agent     string       `json:"agent"`     // a preset; "" is main
	Workspace string       `json:"workspace"` // absolute host directory
	Spec      sandbox.Spec `json:"spec"`
	Approvals Approvals    `json:"approvals"`
	ParentID  string       `json:"parent_id"`
	OneShot   bool         `json:"one_shot"`          // the end of its first turn completes it
	Plugins   []string     `json:"plugins,omitempty"` // what its agent may use beside the preset's tools

	// ByPolicy says that the host's policy has chosen the local wall, once and for
	// the task's whole life.
	ByPolicy bool `json:"by_policy,omitempty"`
}

// PluginBrowser gives an agent the sandbox's browser.
const PluginBrowser = "browser"

// Question is what an agent asks the person.
type Question struct {
	Kind    string   `json:"kind"` // QuestionText or QuestionHands
	Text    string   `json:"text"`
	Options []string `json:"options,omitempty"` // to choose of; other answers are as good
}

// The kinds of a Question: one that is answered in words, and one that asks the
// person to do something in the sandbox's browser.
const (
	QuestionText  = "question"
	QuestionHands = "hands"
)

// UserQuestionRequested parks a call, which is a question, until a person answers.
type UserQuestionRequested struct {
	CallID   string   `json:"call_id"`
	Tool     string   `json:"tool"`
	Question Question `json:"question"`
}

// UserQuestionAnswered is the answer. Of several to one question the first counts.
type UserQuestionAnswered struct {
	CallID   string `json:"call_id"`
	Text     string `json:"text"`
	Declined bool   `json:"declined"` // the person does not answer; Text may say why
}

// TaskRenamed gives a task another title.
type TaskRenamed struct {
	Title string `json:"title"`
}

// TaskArchived puts a task out of sight, or back. It changes nothing else.
type TaskArchived struct {
	Archived bool `json:"archived"`
}

// TaskForked says that a task goes on from another's conversation. It is in the
// logs of both: in the fork's it stands before what was taken over.
type TaskForked struct {
	SourceID  string `json:"source_id"`
	ForkID    string `json:"fork_id"`
	Seq       int64  `json:"seq"`             // of the source's last event that is in the fork
	Sandbox   string `json:"sandbox"`         // "snapshot", "fresh" or "share"
	Workspace string `json:"workspace"`       // "share" or "copy"
	Image     string `json:"image,omitempty"` // the snapshot
}

// Approvals says which tool calls wait for a person.
type Approvals string

// The approval modes.
const (
	ApproveAsk  Approvals = "ask"
	ApproveAuto Approvals = "auto"
)

// LeaseGranted records a take-up: from here on this generation drives the task.
type LeaseGranted struct {
	Generation int64  `json:"generation"`
	HostID     string `json:"host_id"`
}

// TaskHostBound binds a root task to a place. The last one wins.
type TaskHostBound struct {
	HostID       string       `json:"host_id"`
	WorkspaceDir string       `json:"workspace_dir"`
	ExecEnvRef   sandbox.Ref  `json:"exec_env_ref"` // "" on the local wall
	Wall         sandbox.Wall `json:"wall"`
	SandboxID    string       `json:"sandbox_id"` // short id
	Image        string       `json:"image"`
	Network      string       `json:"network"`
	Workdir      string       `json:"workdir,omitempty"`   // of a remote sandbox, as it says
	Reprovision  bool         `json:"reprovision"`         // it replaces a sandbox that was lost
	ByPolicy     bool         `json:"by_policy,omitempty"` // the host's policy chose the local wall

	// Owner is OwnerAdopted where the place was there before the session, and
	// OwnerShared where it was another session's alone.
	Owner string `json:"owner,omitempty"`
}

// OwnerAdopted marks a place that the session is a guest in: a release takes the
// guest out and leaves the place. OwnerShared marks one that several sessions
// hold: the last release removes it.
const (
	OwnerAdopted = "adopted"
	OwnerShared  = "shared"
)

// SandboxStateChanged records a state that was observed or brought about.
type SandboxStateChanged struct {
	Condition sandbox.Condition `json:"condition"`
	Ref       sandbox.Ref       `json:"ref"`
	Detail    string            `json:"detail"` // a step, a cause in words, the last log lines
}

// EgressDecided records what a sandbox asked of the network and what its policy
// said. Equal decisions shortly after each other are one event, and connections
// that end later are counted in a later one: sums over the events are exact.
type EgressDecided struct {
	Protocol string        `json:"protocol"` // "http", "connect" or "socks5"
	Host     string        `json:"host"`     // as the sandbox named it
	Port     uint16        `json:"port"`
	Address  string        `json:"address"` // that it resolved to, the last one; "" for none
	Allowed  bool          `json:"allowed"`
	Reason   string        `json:"reason"`
	Count    int           `json:"count"`  // decisions; 0 when this only tells of ends
	Failed   int           `json:"failed"` // allowed, and not connected
	Error    string        `json:"error"`  // of the last that failed
	Sent     int64         `json:"sent"`   // bytes out of the sandbox, of connections that have ended
	Received int64         `json:"received"`
	Longest  time.Duration `json:"longest"` // of a connection that has ended
	First    time.Time     `json:"first"`
}

// BrowserControlChanged says that a person took the sandbox's browser from the
// agent, or let go of it. What they do meanwhile is written down nowhere.
type BrowserControlChanged struct {
	Viewer string       `json:"viewer"`         // whose hands: "person"
	Cause  ControlCause `json:"cause"`          // what happened
	Until  time.Time    `json:"until,omitzero"` // how long they have it
}

// ControlCause says how control of the browser changed.
type ControlCause string

// The causes.
const (
	ControlTaken     ControlCause = "taken"
	ControlExtended  ControlCause = "extended"
	ControlGivenBack ControlCause = "given_back"
	ControlExpired   ControlCause = "expired" // its time was over
	ControlLeft      ControlCause = "left"    // nobody was there any more to give it back
	ControlEnded     ControlCause = "ended"   // the browser ended while they had it
)

// MessagesAppended adds to the conversation.
type MessagesAppended struct {
	Messages []llm.Message `json:"messages"`
	Usage    llm.Usage     `json:"usage"`  // of the answer; sums are made of LLMRequestFinished, which has it too
	Notice   bool          `json:"notice"` // written by the host, for the model to know
}

// TaskWoken starts a turn, or goes on with one.
type TaskWoken struct {
	Cause string `json:"cause"` // "message", "approval", "answer", "take-up", "retry"
}

// SuspendReason says why a task does not run.
type SuspendReason string

// The reasons.
const (
	WaitingHuman SuspendReason = "waiting_human"
	Interrupted  SuspendReason = "interrupted"
	TurnFailed   SuspendReason = "turn_failed"
	NoSandbox    SuspendReason = "no_sandbox" // it could not be made, and no turn was waiting for it
)

// TaskSuspended ends a turn, or parks it.
type TaskSuspended struct {
	Reason SuspendReason `json:"reason"`
	WakeOn string        `json:"wake_on"` // "next-goal", "approval-<call id>" or "question-<call id>"
	Detail string        `json:"detail"`
}

// TurnInterrupted says that a turn was stopped. Its kills are the proof; where
// there are none, nothing is proven.
type TurnInterrupted struct {
	Cause   string               `json:"cause"` // "stop", "shutdown"
	Kills   []execenv.KillReport `json:"kills"`
	Left    int                  `json:"left"`    // processes of the turn's calls that are still alive
	Unknown int                  `json:"unknown"` // calls that may still run: nobody could say how they ended
	Took    time.Duration        `json:"took"`
}

// Actor says who made a tool call.
type Actor string

// The actors.
const (
	ActorAgent  Actor = "agent"
	ActorPerson Actor = "person"
)

// ToolCallStarted is written before a call has any effect.
type ToolCallStarted struct {
	CallID string          `json:"call_id"`
	Tool   string          `json:"tool"`
	Input  json.RawMessage `json:"input"`
	Actor  Actor           `json:"actor"`
	Where  execenv.Where   `json:"where"`
}

// CallStatus says how a call ended.
type CallStatus string

// The statuses. CallUnknown means that it may or may not have happened.
const (
	CallOK          CallStatus = "ok"
	CallError       CallStatus = "error"
	CallTimeout     CallStatus = "timeout"
	CallInterrupted CallStatus = "interrupted"
	CallUnknown     CallStatus = "unknown"
	CallLost        CallStatus = "lost" // the sandbox went away
	CallDenied      CallStatus = "denied"
)

// ToolResultRecorded is a call's result: the text is for the model, the display
// for the screen.
type ToolResultRecorded struct {
	CallID   string            `json:"call_id"`
	Tool     string            `json:"tool"`
	Status   CallStatus        `json:"status"`
	Text     string            `json:"text"`
	Images   []llm.Image       `json:"images"`
	Display  json.RawMessage   `json:"display"` // by tool; see package tools
	Files    map[string]string `json:"files"`   // path to hash: what the agent now knows of them
	Where    execenv.Where     `json:"where"`
	NotMade  bool              `json:"not_made"` // nothing of the call has reached that place; false where that is not known
	Duration time.Duration     `json:"duration"`
}

// ToolCallFinished closes a call, after its result has been acknowledged to the
// place that ran it.
type ToolCallFinished struct {
	CallID string `json:"call_id"`
}

// ToolCallDenied says that a call was not made.
type ToolCallDenied struct {
	CallID string `json:"call_id"`
	Reason string `json:"reason"`
}

// ToolCallApprovalRequested parks a call until a person decides.
type ToolCallApprovalRequested struct {
	CallID string          `json:"call_id"`
	Tool   string          `json:"tool"`
	Input  json.RawMessage `json:"input"`
	Reason string          `json:"reason"`
}

// ToolCallApprovalResolved is the decision.
type ToolCallApprovalResolved struct {
	CallID string `json:"call_id"`
	Allow  bool   `json:"allow"`
	Reason string `json:"reason"`
}

// SubtaskSpawned says that a call has handed work to another agent, whose task has
// a log of its own under the same root. Of one call there is one, ever.
type SubtaskSpawned struct {
	CallID      string `json:"call_id"`
	TaskID      string `json:"task_id"`
	Agent       string `json:"agent"`       // a preset
	Description string `json:"description"` // in a few words, for people
}

// SubtaskCompleted says how a subtask has ended. What it said last is the result
// of its call.
type SubtaskCompleted struct {
	CallID  string     `json:"call_id"`
	TaskID  string     `json:"task_id"`
	Status  CallStatus `json:"status"` // CallOK, CallError or CallInterrupted
	Text    string     `json:"text"`
	Usage   llm.Usage  `json:"usage"`    // of its own requests, which are in its own log
	CostUSD *float64   `json:"cost_usd"` // nil when the price of some of it is not known
}

// StepAttemptAbandoned says that a take-up found calls of an earlier generation
// unfinished, and what it does about them.
type StepAttemptAbandoned struct {
	CallIDs []string `json:"call_ids"`
	Detail  string   `json:"detail"`
}

// LLMRequestStarted and LLMRequestFinished bracket a request to a model.
type LLMRequestStarted struct {
	Model string `json:"model"`
}

// LLMRequestFinished ends a request. The text that was streamed since its start
// is void from here on: what counts of it is in the MessagesAppended that
// follows in the same transaction, and after an error nothing may follow. So a
// screen drops its live text here, whatever comes next.
type LLMRequestFinished struct {
	Model    string        `json:"model"`
	Usage    llm.Usage     `json:"usage"`
	CostUSD  *float64      `json:"cost_usd"` // nil when the price is not known
	Duration time.Duration `json:"duration"`
	Error    string        `json:"error"`
}

// LLMRetryScheduled says that a request to the model failed in a way that may
// pass, and when it is made again. The turn goes on running meanwhile. A screen
// shows the wait, in the place of what the failed request had streamed, until
// the next LLMRequestStarted, TaskWoken or TaskSuspended, or a person's message.
type LLMRetryScheduled struct {
	Attempt  int           `json:"attempt"`  // that failed, from 1
	Attempts int           `json:"attempts"` // that are made in all
	At       time.Time     `json:"at"`
	Kind     llm.ErrorKind `json:"kind"`
	Detail   string        `json:"detail"`
}

// TaskCompleted, TaskFailed and TaskCancelled end a task for ever.
type TaskCompleted struct {
	Text string `json:"text"`
}

// TaskFailed is described at TaskCompleted.
type TaskFailed struct {
	Error string `json:"error"`
}

// TaskCancelled is described at TaskCompleted.
type TaskCancelled struct {
	Reason string `json:"reason"`
}

// The kinds, one per payload.
const (
	KindTaskCreated           Kind = "TaskCreated"
	KindTaskRenamed           Kind = "TaskRenamed"
	KindTaskArchived          Kind = "TaskArchived"
	KindTaskForked            Kind = "TaskForked"
	KindLeaseGranted          Kind = "LeaseGranted"
	KindTaskHostBound         Kind = "TaskHostBound"
	KindSandboxStateChanged   Kind = "SandboxStateChanged"
	KindEgressDecided         Kind = "EgressDecided"
	KindBrowserControlChanged Kind = "BrowserControlChanged"
	KindMessagesAppended      Kind = "MessagesAppended"
	KindTaskWoken             Kind = "TaskWoken"
	KindTaskSuspended         Kind = "TaskSuspended"
	KindTurnInterrupted       Kind = "TurnInterrupted"
	KindToolCallStarted       Kind = "ToolCallStarted"
	KindToolResultRecorded    Kind = "ToolResultRecorded"
	KindToolCallFinished      Kind = "ToolCallFinished"
	KindToolCallDenied        Kind = "ToolCallDenied"
	KindToolApprovalRequested Kind = "ToolCallApprovalRequested"
	KindToolApprovalResolved  Kind = "ToolCallApprovalResolved"
	KindUserQuestionRequested Kind = "UserQuestionRequested"
	KindUserQuestionAnswered  Kind = "UserQuestionAnswered"
	KindSubtaskSpawned        Kind = "SubtaskSpawned"
	KindSubtaskCompleted      Kind = "SubtaskCompleted"
	KindStepAttemptAbandoned  Kind = "StepAttemptAbandoned"
	KindLLMRequestStarted     Kind = "LLMRequestStarted"
	KindLLMRequestFinished    Kind = "LLMRequestFinished"
	KindLLMRetryScheduled     Kind = "LLMRetryScheduled"
	KindTaskCompleted         Kind = "TaskCompleted"
	KindTaskFailed            Kind = "TaskFailed"
	KindTaskCancelled         Kind = "TaskCancelled"
)

// EventKind implements Payload.
func (TaskCreated) EventKind() Kind               { return KindTaskCreated }
func (TaskRenamed) EventKind() Kind               { return KindTaskRenamed }
func (TaskArchived) EventKind() Kind              { return KindTaskArchived }
func (TaskForked) EventKind() Kind                { return KindTaskForked }
func (LeaseGranted) EventKind() Kind              { return KindLeaseGranted }
func (TaskHostBound) EventKind() Kind             { return KindTaskHostBound }
func (SandboxStateChanged) EventKind() Kind       { return KindSandboxStateChanged }
func (EgressDecided) EventKind() Kind             { return KindEgressDecided }
func (BrowserControlChanged) EventKind() Kind     { return KindBrowserControlChanged }
func (MessagesAppended) EventKind() Kind          { return KindMessagesAppended }
func (TaskWoken) EventKind() Kind                 { return KindTaskWoken }
func (TaskSuspended) EventKind() Kind             { return KindTaskSuspended }
func (TurnInterrupted) EventKind() Kind           { return KindTurnInterrupted }
func (ToolCallStarted) EventKind() Kind           { return KindToolCallStarted }
func (ToolResultRecorded) EventKind() Kind        { return KindToolResultRecorded }
func (ToolCallFinished) EventKind() Kind          { return KindToolCallFinished }
func (ToolCallDenied) EventKind() Kind            { return KindToolCallDenied }
func (ToolCallApprovalRequested) EventKind() Kind { return KindToolApprovalRequested }
func (ToolCallApprovalResolved) EventKind() Kind  { return KindToolApprovalResolved }
func (UserQuestionRequested) EventKind() Kind     { return KindUserQuestionRequested }
func (UserQuestionAnswered) EventKind() Kind      { return KindUserQuestionAnswered }
func (SubtaskSpawned) EventKind() Kind            { return KindSubtaskSpawned }
func (SubtaskCompleted) EventKind() Kind          { return KindSubtaskCompleted }
func (StepAttemptAbandoned) EventKind() Kind      { return KindStepAttemptAbandoned }
func (LLMRequestStarted) EventKind() Kind         { return KindLLMRequestStarted }
func (LLMRequestFinished) EventKind() Kind        { return KindLLMRequestFinished }
func (LLMRetryScheduled) EventKind() Kind         { return KindLLMRetryScheduled }
func (TaskCompleted) EventKind() Kind             { return KindTaskCompleted }
func (TaskFailed) EventKind() Kind                { return KindTaskFailed }
func (TaskCancelled) EventKind() Kind             { return KindTaskCancelled }

// blank holds a constructor of an empty payload per kind.
var blank = map[Kind]func() Payload{
	KindTaskCreated:           func() Payload { return &TaskCreated{} },
	KindTaskRenamed:           func() Payload { return &TaskRenamed{} },
	KindTaskArchived:          func() Payload { return &TaskArchived{} },
	KindTaskForked:            func() Payload { return &TaskForked{} },
	KindLeaseGranted:          func() Payload { return &LeaseGranted{} },
	KindTaskHostBound:         func() Payload { return &TaskHostBound{} },
	KindSandboxStateChanged:   func() Payload { return &SandboxStateChanged{} },
	KindEgressDecided:         func() Payload { return &EgressDecided{} },
	KindBrowserControlChanged: func() Payload { return &BrowserControlChanged{} },
	KindMessagesAppended:      func() Payload { return &MessagesAppended{} },
	KindTaskWoken:             func() Payload { return &TaskWoken{} },
	KindTaskSuspended:         func() Payload { return &TaskSuspended{} },
	KindTurnInterrupted:       func() Payload { return &TurnInterrupted{} },
	KindToolCallStarted:       func() Payload { return &ToolCallStarted{} },
	KindToolResultRecorded:    func() Payload { return &ToolResultRecorded{} },
	KindToolCallFinished:      func() Payload { return &ToolCallFinished{} },
	KindToolCallDenied:        func() Payload { return &ToolCallDenied{} },
	KindToolApprovalRequested: func() Payload { return &ToolCallApprovalRequested{} },
	KindToolApprovalResolved:  func() Payload { return &ToolCallApprovalResolved{} },
	KindUserQuestionRequested: func() Payload { return &UserQuestionRequested{} },
	KindUserQuestionAnswered:  func() Payload { return &UserQuestionAnswered{} },
	KindSubtaskSpawned:        func() Payload { return &SubtaskSpawned{} },
	KindSubtaskCompleted:      func() Payload { return &SubtaskCompleted{} },
	KindStepAttemptAbandoned:  func() Payload { return &StepAttemptAbandoned{} },
	KindLLMRequestStarted:     func() Payload { return &LLMRequestStarted{} },
	KindLLMRequestFinished:    func() Payload { return &LLMRequestFinished{} },
	KindLLMRetryScheduled:     func() Payload { return &LLMRetryScheduled{} },
	KindTaskCompleted:         func() Payload { return &TaskCompleted{} },
	KindTaskFailed:            func() Payload { return &TaskFailed{} },
	KindTaskCancelled:         func() Payload { return &TaskCancelled{} },
}

// Decode returns a pointer to the payload of e. A kind that is not known, as a
// newer version may have written, is an error.
func Decode(e Event) (Payload, error) {
	make, ok := blank[e.Kind]
	if !ok {
		return nil, fmt.Errorf("event %d: unknown kind %q", e.Seq, e.Kind)
	}
	p := make()
	if err := json.Unmarshal(e.Body, p); err != nil {
		return nil, fmt.Errorf("event %d (%s): %w", e.Seq, e.Kind, err)
	}
	return p, nil
}

// Encode returns an event of a task that carries p. The store gives it its Seq.
func Encode(rootTaskID, taskID string, generation int64, at time.Time, p Payload) (Event, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return Event{}, fmt.Errorf("encode %s: %w", p.EventKind(), err)
	}
	return Event{TaskID: taskID, RootTaskID: rootTaskID, Kind: p.EventKind(), At: at.UTC(), Generation: generation, Body: body}, nil
}
