package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/backend/agent"
	"github.com/glovebox-dev/glovebox/backend/browser"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/session"
	"github.com/glovebox-dev/glovebox/backend/task"
)

var (
	errBody     = errors.New("the body does not fit")
	errTooLarge = errors.New("the body is too large")
)

// commandTime bounds a command that waits for an engine. It goes on when the
// client leaves: half a release is worse than a late one.
const commandTime = 2 * time.Minute

// route is one line of the API: what it is for, what it takes and answers. The
// OpenAPI document is made of the same table.
type route struct {
	method, path string // path below /api/v1
	does         string
	in, out      any // a body's type, by an empty value of it; nil for none
	handle       http.HandlerFunc
}

func (s *Server) table() []route {
	done := Accepted{}
	return []route{
		{"GET", "/about", "Say what this server is and can offer.", nil, About{}, s.about},
		{"GET", "/doctor", "Check what a session needs, by using it.", nil, Doctor{}, s.doctor},
		{"GET", "/openapi.json", "This document.", nil, nil, s.openapi},
		{"GET", "/events", "Upgrade to the events socket; its messages are frames.", nil, Frame{}, s.events},
		{"GET", "/images", "List the images of the docker wall, and their builds.", nil, Images{}, s.listImages},
		{"POST", "/images/build", "Build an image in the background, or join the build that runs.", BuildRequest{}, Build{}, s.buildImage},
		{"POST", "/images/build/cancel", "Cancel a build; nothing of it is left then.", BuildRequest{}, Build{}, s.cancelImage(KindBuild)},
		{"POST", "/images/pull", "Get an image from its registry in the background, or join the pull that runs.", BuildRequest{}, Build{}, s.pullImage},
		{"POST", "/images/pull/cancel", "Cancel a pull; nothing of it is left then, unless a sandbox waits for it too.", BuildRequest{}, Build{}, s.cancelImage(KindPull)},
		{"POST", "/images/remove", "Remove an image that Glovebox has made and that nothing uses.", RemoveImageRequest{}, nil, s.removeImage},
		{"GET", "/containers", "List all containers of the docker wall's engine, and whose each is.", nil, EngineContainers{}, s.listContainers},
		{"POST", "/containers/{container}/attach", "Open a session in a running container, whoever made it; by name or id.", AttachRequest{}, done, s.attachContainer},
		{"POST", "/containers/{container}/start", "Start a container, or let a paused one go on.", nil, nil, s.onContainer((Containers).Start)},
		{"POST", "/containers/{container}/stop", "Stop a container.", nil, nil, s.onContainer((Containers).Stop)},
		{"POST", "/containers/{container}/release", "Let go of a container: of the sessions in it, or remove an orphan of this instance.", ReleaseRequest{}, nil, s.releaseContainer},
		{"GET", "/containers/{container}/logs", "Read the last ?tail=N lines that a container wrote.", nil, Logs{}, s.containerLogs},
		{"POST", "/window/folder", "Pick a directory in the desktop window's dialog.", FolderRequest{}, FolderResponse{}, inWindow(s, pickFolder)},
		{"POST", "/window/link", "Open an address in the system's browser.", LinkRequest{}, nil, inWindow(s, openLink)},
		{"POST", "/window/notify", "Show a notification of the system.", NotifyRequest{}, nil, inWindow(s, notify)},
		{"POST", "/window/show", "Bring the desktop window to the front.", nil, nil, inWindow(s, showWindow)},
		{"POST", "/token", "Make a new token and end the sockets of the former one.", nil, nil, s.rotateToken},

		{"GET", "/dirs", "List the directories in ?path=DIR of the server's machine, or in its owner's home.", nil, Dirs{}, s.dirs},
		{"POST", "/dirs", "Make a directory on the server's machine, where a workspace may be.", MakeDirRequest{}, Dirs{}, s.makeDir},

		{"POST", "/interrupt", "Stop every turn that runs or waits.", nil, Stopped{}, s.interruptAll},
		{"GET", "/sessions", "List the sessions, newest first.", nil, []Session{}, s.listSessions},
		{"POST", "/sessions", "Open a session.", OpenRequest{}, done, s.openSession},
		{"GET", "/sessions/{id}", "Show a session.", nil, Session{}, s.showSession},
		{"PATCH", "/sessions/{id}", "Rename a session.", RenameRequest{}, done, s.renameSession},
		{"GET", "/sessions/{id}/events", "Read a page of a session's log, after ?after=SEQ.", nil, []task.Event{}, s.sessionEvents},
		{"GET", "/sessions/{id}/container", "Read a sandbox's card back from the engine, the kernel and the guest.", nil, Container{}, s.container},
		{"GET", "/sessions/{id}/logs", "Read the last ?tail=N lines that a sandbox's own process wrote, also after its end.", nil, Logs{}, s.logs},
		{"POST", "/sessions/{id}/messages", "Send a message, which starts a turn, joins the running one, or answers the question that waits.", MessageRequest{}, done, s.sendMessage},
		{"POST", "/sessions/{id}/approvals/{call}", "Decide about a call that waits.", DecisionRequest{}, done, s.decide},
		{"POST", "/sessions/{id}/answers/{call}", "Answer a question that waits, or decline to.", AnswerRequest{}, done, s.answer},
		{"POST", "/sessions/{id}/interrupt", "Stop the turn.", nil, done, s.command((*session.Service).Interrupt)},
		{"POST", "/sessions/{id}/retry", "Ask the model again now: where the turn waits to, or has been parked.", nil, done, s.command((*session.Service).Retry)},
		{"POST", "/sessions/{id}/archive", "Put the session out of sight, or back; a message brings it back too.", ArchiveRequest{}, done, s.archiveSession},
		{"POST", "/sessions/{id}/attach", "Reconnect to the sandbox, and start it when it is stopped.", nil, done, s.command((*session.Service).Attach)},
		{"POST", "/sessions/{id}/start", "The same as attach, by the word that a stopped sandbox's button has.", nil, done, s.command((*session.Service).Attach)},
		{"POST", "/sessions/{id}/stop", "Stop the sandbox and keep its contents.", nil, done, s.command((*session.Service).Stop)},
		{"POST", "/sessions/{id}/restart", "Stop the sandbox and start the same one again, with its contents.", nil, done, s.command((*session.Service).Restart)},
		{"POST", "/sessions/{id}/release", "Let go of the sandbox: remove, keep or stop it.", ReleaseRequest{}, done, s.release},
		{"POST", "/sessions/{id}/reprovision", "Make a new sandbox for a session whose own is gone.", nil, done, s.command((*session.Service).Reprovision)},
		{"POST", "/sessions/{id}/unpause", "Let a paused sandbox go on; attach and start do it too.", nil, done, s.command((*session.Service).Unpause)},
		{"POST", "/sessions/{id}/snapshot", "Make an image of what the sandbox holds, and wait for it.", SnapshotRequest{}, Snapshot{}, s.snapshot},
		{"POST", "/sessions/{id}/fork", "Open another session that goes on from this one's conversation; waits for what is copied.", ForkRequest{}, done, s.fork},
		{"POST", "/sessions/{id}/work/cancel", "Call off the snapshot or fork that is being made; nothing of it is left then.", nil, done, s.command((*session.Service).CancelWork)},
		{"POST", "/sessions/{id}/close", "End the session and remove its sandbox.", nil, done, s.command((*session.Service).Close)},
		{"POST", "/sessions/{id}/tools", "Make one tool call by hand and wait for its result.", ToolRequest{}, ToolResponse{}, s.callTool},
		{"GET", "/sessions/{id}/terminals", "List a session's terminals.", nil, []execenv.Terminal{}, s.listTerminals},
		{"POST", "/sessions/{id}/terminals", "Open a terminal; it goes on without a view.", execenv.TerminalRequest{}, execenv.Terminal{}, s.openTerminal},
		{"DELETE", "/sessions/{id}/terminals/{terminal}", "End all processes of a terminal and forget it.", nil, done, s.closeTerminal},
		{"GET", "/sessions/{id}/terminals/{terminal}/socket", "Upgrade to a view of a terminal, of its output after ?after=OFFSET.", TerminalSocket{}, TerminalSocket{}, s.viewTerminal},
		{"GET", "/sessions/{id}/browser", "Look at the sandbox's browser, and at who uses it.", nil, BrowserInfo{}, s.browserInfo},
		{"POST", "/sessions/{id}/browser/start", "Start the browser, and a sandbox that was stopped for want of use.", nil, done, s.command((*session.Service).StartBrowser)},
		{"POST", "/sessions/{id}/browser/stop", "End the browser with all its pages.", nil, done, s.command((*session.Service).StopBrowser)},
		{"GET", "/sessions/{id}/browser/outline", "Read the page that the browser shows as an outline.", nil, browser.Outline{}, s.browserOutline},
		{"GET", "/sessions/{id}/browser/socket", "Upgrade to a view of the browser by ?viewer=ID, of a picture of ?width=&height=&dpr=&quality=.", BrowserSocket{}, BrowserSocket{}, s.viewBrowser},
		{"GET", "/sessions/{id}/files", "List a directory of a sandbox, ?path=DIR, or its workspace.", nil, Listing{}, s.listFiles},
		{"GET", "/sessions/{id}/files/view", "Show a file of a sandbox, ?path=FILE.", nil, FileView{}, s.viewFile},
		{"GET", "/sessions/{id}/files/raw", "Download a file of a sandbox, ?path=FILE.", nil, nil, s.rawFile},
		{"GET", "/sessions/{id}/browser/recording", "Read what was recorded of the browser, after ?after=N; also of a session that has ended.", nil, RecordingPage{}, s.recording},
		{"GET", "/sessions/{id}/browser/recording/{n}", "Get a recorded picture, a JPEG.", nil, nil, s.recordedPicture},
		{"DELETE", "/sessions/{id}/browser/recording", "Erase what was recorded of the browser so far.", nil, done, s.command((*session.Service).EraseRecording)},
		{"GET", "/sessions/{id}/egress", "List the last ?limit=N decisions about connections out of the sandbox, newest first.", nil, []EgressRow{}, s.listEgress},
		{"GET", "/sessions/{id}/isolation", "Run the same probe on the host and in the sandbox.", nil, Isolation{}, s.isolation},
		{"GET", "/sessions/{id}/exec", "Upgrade to a socket that runs one command.", ExecRequest{}, ExecResult{}, s.exec},
	}
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.table() {
		mux.HandleFunc(r.method+" /api/v1"+r.path, r.handle)
	}
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusNotFound, ErrorResponse{ErrorBody{Code: "unknown_route", Message: r.Method + " " + r.URL.Path + " is not part of this API"}})
	})
	mux.Handle("/", s.assets())
	return mux
}

// decode reads a JSON body of a known shape.
func decode[T any](r *http.Request) (T, error) {
	var v T
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(&v)
	if errors.Is(err, io.EOF) && r.ContentLength == 0 {
		return v, nil // every field has a default
	}
	if err != nil {
		return v, unread(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, fmt.Errorf("%w: something follows the JSON value", errBody)
	}
	return v, nil
}

// unread says why a body could not be read.
func unread(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return fmt.Errorf("%w: at most %d bytes", errTooLarge, tooLarge.Limit)
	}
	return fmt.Errorf("%w: %w", errBody, misfit(err))
}

// misfit says in the words of the API, not of Go, what is wrong with a body.
func misfit(err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	if errors.As(err, &kind) {
		return &sandbox.FieldError{Field: cmp.Or(kind.Field, "body"), Reason: "cannot be a JSON " + kind.Value}
	}
	if errors.As(err, &syntax) {
		return fmt.Errorf("it is not JSON, from byte %d on", syntax.Offset)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return &sandbox.FieldError{Field: strings.Trim(name, `"`), Reason: "unknown field; check its spelling"}
	}
	return err
}

// command answers 202 once a verb without a body has been carried out.
func (s *Server) command(verb func(*session.Service, context.Context, string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.carryOut(w, r, func(ctx context.Context, id string) error { return verb(s.o.Sessions, ctx, id) })
	}
}

func (s *Server) carryOut(w http.ResponseWriter, r *http.Request, verb func(ctx context.Context, id string) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), commandTime)
	defer cancel()
	v, err := s.o.Sessions.View(ctx, r.PathValue("id"))
	if err == nil {
		err = verb(ctx, v.ID)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusAccepted, Accepted{SessionID: v.ID})
}

func (s *Server) about(w http.ResponseWriter, r *http.Request) {
	reply(w, http.StatusOK, s.o.About(r.Context()))
}

func (s *Server) doctor(w http.ResponseWriter, r *http.Request) {
	reply(w, http.StatusOK, s.o.Doctor(r.Context()))
}

// rotateToken makes a new token, which only the owner of the data directory can
// read; every open window has to be opened again.
func (s *Server) rotateToken(w http.ResponseWriter, r *http.Request) {
	token, err := s.o.Rotate()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.o.Token.Set(token)
	reply(w, http.StatusAccepted, struct{}{})
}

func (s *Server) listSessions(w http.ResponseWriter, r *http.Request) {
	sessions, err := s.sessions(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, sessions)
}

func (s *Server) sessions(ctx context.Context) ([]Session, error) {
	views, err := s.o.Sessions.Views(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Session, len(views))
	for i, v := range views {
		out[i] = sessionOf(v)
	}
	return out, nil
}

func (s *Server) showSession(w http.ResponseWriter, r *http.Request) {
	v, err := s.o.Sessions.View(r.Context(), r.PathValue("id"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, sessionOf(v))
}

func (s *Server) openSession(w http.ResponseWriter, r *http.Request) {
	req, err := decode[OpenRequest](r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	id, err := s.o.Sessions.Open(r.Context(), session.Open{
		Title: req.Title, Goal: req.Goal, Workspace: req.Workspace, Model: req.Model, Agent: req.Agent,
		Spec: req.Spec, Approvals: req.Approvals, OneShot: req.OneShot, Plugins: req.Plugins,
	})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusAccepted, Accepted{SessionID: id})
}

func (s *Server) renameSession(w http.ResponseWriter, r *http.Request) {
	req, err := decode[RenameRequest](r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.carryOut(w, r, func(ctx context.Context, id string) error { return s.o.Sessions.Rename(ctx, id, req.Title) })
}

func (s *Server) sendMessage(w http.ResponseWriter, r *http.Request) {
	req, err := decode[MessageRequest](r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.carryOut(w, r, func(ctx context.Context, id string) error { return s.o.Sessions.Send(ctx, id, req.Text) })
}

func (s *Server) decide(w http.ResponseWriter, r *http.Request) {
	req, err := decode[DecisionRequest](r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.carryOut(w, r, func(ctx context.Context, id string) error {
		return s.o.Sessions.Decide(ctx, id, r.PathValue("call"), req.Allow, req.Reason)
	})
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	req, err := decode[AnswerRequest](r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.carryOut(w, r, func(ctx context.Context, id string) error {
		return s.o.Sessions.Answer(ctx, id, r.PathValue("call"), req.Text, req.Declined)
	})
}

func (s *Server) release(w http.ResponseWriter, r *http.Request) {
	req, err := decode[ReleaseRequest](r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	how, ok := map[string]lifetime.How{"": lifetime.Remove, "remove": lifetime.Remove, "keep": lifetime.Keep, "stop": lifetime.StopOnly}[req.How]
	if !ok {
		s.fail(w, r, &sandbox.FieldError{Field: "how", Reason: fmt.Sprintf("unknown way %q; choose remove, keep or stop", req.How)})
		return
	}
	s.carryOut(w, r, func(ctx context.Context, id string) error { return s.o.Sessions.Release(ctx, id, how) })
}

// callTool makes a call and answers with its result: the one command that waits,
// because the one who made it wants to read it.
func (s *Server) callTool(w http.ResponseWriter, r *http.Request) {
	req, err := decode[ToolRequest](r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	v, err := s.o.Sessions.View(r.Context(), r.PathValue("id"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	result, err := s.o.Sessions.Tool(r.Context(), v.ID, req.Tool, req.Input)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, ToolResponse{
		Type: "tool_result", SessionID: v.ID, CallID: result.CallID, Tool: result.Tool, Status: result.Status,
		Text: result.Text, Display: result.Display, Where: result.Where, TookMS: result.Duration.Milliseconds(),
	})
}

// sessionEvents answers with a page of a session's log.
func (s *Server) sessionEvents(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if err != nil && r.URL.Query().Has("after") {
		s.fail(w, r, fmt.Errorf("%w: after is not a number", errBody))
		return
	}
	v, err := s.o.Sessions.View(r.Context(), r.PathValue("id"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	events, err := s.o.Sessions.Events(r.Context(), v.ID, after, eventsPage)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if events == nil {
		events = []task.Event{}
	}
	reply(w, http.StatusOK, events)
}

func (s *Server) container(w http.ResponseWriter, r *http.Request) {
	card, err := s.o.Sessions.Container(r.Context(), r.PathValue("id"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	out := Container{Condition: card.Condition, Description: card.Description, Hello: card.Hello, Stats: card.Stats}
	if card.Err != nil {
		_, body := describe(card.Err)
		out.Error = body.Message
	}
	reply(w, http.StatusOK, out)
}

func sessionOf(v session.View) Session {
	out := Session{
		ID: v.ID, Title: v.Title, Status: v.Status, Detail: v.Detail, Model: v.Created.Model, Workspace: v.Created.Workspace,
		Wall: v.Created.Spec.Wall, Image: v.Created.Spec.Image, Network: string(v.Created.Spec.NetworkOrDefault()),
		User: v.Created.Spec.User, Sandbox: v.Condition, Approvals: v.Created.Approvals,
		Waiting: []Waiting{}, Running: v.Open, Generation: v.Generation,
		CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt, Seq: v.Seq,
	}
	out.Adopted = v.Created.Spec.Adopt != ""
	forkOf(&out, v)
	out.Suspended, out.Usage, out.CostUSD = v.Suspended, v.Usage, v.CostUSD
	out.Agent, out.Goal, out.Archived = cmp.Or(v.Created.Agent, agent.MainPreset), clip(v.Created.Goal, 500), v.Archived
	// The last step outlives its allocation by a moment.
	if step := v.Step; step != nil && (v.Condition == nil || v.Condition.Value == sandbox.StateAllocating) {
		out.Step, out.Progress = step.Name, &StepProgress{
			Step: step.Name, Detail: step.Detail, Bytes: step.Bytes, Total: step.Total,
			BytesPerSecond: step.BytesPerSecond, StartedAt: step.At,
		}
	}
	if r := v.Retry; r != nil {
		out.Retry = &Retry{Attempt: r.Attempt, Attempts: r.Attempts, At: r.At, Kind: r.Kind, Detail: r.Detail}
	}
	out.Plugins = append([]string{}, v.Created.Plugins...)
	if out.Running == nil {
		out.Running = []string{}
	}
	if v.Bound != nil {
		out.ShortID, out.Ref = v.Bound.SandboxID, v.Bound.ExecEnvRef
		if v.Bound.Network != "" && v.Bound.Wall != sandbox.WallLocal {
			out.Network = v.Bound.Network
		}
	}
	for _, w := range v.Waiting {
		out.Waiting = append(out.Waiting, waitingOf(w))
	}
	return out
}

func waitingOf(w task.Waiting) Waiting {
	out := Waiting{TaskID: w.TaskID, CallID: w.CallID, Tool: w.Tool, Kind: waitsForApproval, Reason: w.Reason, Options: []string{}}
	if q := w.Question; q != nil {
		out.Kind, out.Text = q.Kind, q.Text
		out.Options = append(out.Options, q.Options...)
	}
	return out
}

// clip shortens s to at most n bytes, between two characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
