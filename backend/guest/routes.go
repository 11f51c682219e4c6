//go:build linux

package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

// maxBody bounds a request's body, but for a command's input.
const maxBody = 64 << 20

func (g *Guest) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.PathHello, g.sayHello)
	mux.HandleFunc("GET "+wire.PathStats, g.sayStats)
	mux.HandleFunc("POST "+wire.PathShutdown, g.shutdown)

	mux.HandleFunc("POST "+wire.PathRun, g.run)
	mux.HandleFunc("GET "+wire.PathCalls, g.listCalls)
	mux.HandleFunc("GET "+wire.PathCall, g.followCall)
	mux.HandleFunc("POST "+wire.PathKill, g.killCall)
	mux.HandleFunc("POST "+wire.PathStdin, g.feedCall)
	mux.HandleFunc("POST "+wire.PathAck, g.ackCall)

	mux.HandleFunc("GET "+wire.PathTerminals, g.listTerminals)
	mux.HandleFunc("POST "+wire.PathTerminals, g.openTerminal)
	mux.HandleFunc("DELETE "+wire.PathTerminal, g.closeTerminal)
	mux.HandleFunc("GET "+wire.PathView, g.viewTerminal)

	mux.HandleFunc("GET "+wire.PathBrowser, g.sayBrowser)
	mux.HandleFunc("POST "+wire.PathBrowserStart, g.startBrowser)
	mux.HandleFunc("POST "+wire.PathBrowserStop, g.stopBrowser)
	mux.HandleFunc("GET "+wire.PathCDP, g.openCDP)

	if g.relay != nil {
		mux.HandleFunc("GET "+wire.PathRelay, g.openRelay)
	}
	ports := newPortProxy(ownPorts(g.listener.Addr(), g.cfg.Relay), g.log)
	mux.Handle(wire.PathProxy, ports)
	mux.Handle(wire.PathProxyRest, ports)
	if g.files != nil {
		g.fileRoutes(mux)
	}
	return g.fence(mux)
}

// fence refuses an agent whose task was taken up by another since.
func (g *Guest) fence(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := callerOf(r)
		if err == nil && caller.RootTaskID != "" {
			var highest int64
			highest, err = g.journal.Raise(caller.RootTaskID, caller.Generation)
			if err == nil && highest > caller.Generation {
				err = fmt.Errorf("generation %d of task %s, %d was seen: %w", caller.Generation, caller.RootTaskID, highest, execenv.ErrFenced)
			}
		}
		if err != nil {
			fail(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func callerOf(r *http.Request) (execenv.Caller, error) {
	root, text := r.Header.Get(wire.HeaderRoot), r.Header.Get(wire.HeaderGeneration)
	if root == "" && text == "" {
		return execenv.Caller{}, nil // a person
	}
	generation, err := strconv.ParseInt(text, 10, 64)
	if root == "" || err != nil {
		return execenv.Caller{}, fmt.Errorf("%s %q with %s %q: %w", wire.HeaderRoot, root, wire.HeaderGeneration, text, execenv.ErrInvalid)
	}
	return execenv.Caller{RootTaskID: root, Generation: generation}, nil
}

// decode reads a JSON body into v.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	body := http.MaxBytesReader(w, r.Body, maxBody)
	if err := json.NewDecoder(body).Decode(v); err != nil && !errors.Is(err, io.EOF) {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return fmt.Errorf("the request: %w", execenv.ErrTooLarge)
		}
		return fmt.Errorf("read the request: %v: %w", err, execenv.ErrInvalid)
	}
	return nil
}

func answer(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		fail(w, fmt.Errorf("encode the answer: %w", err))
		return
	}
	send(w, http.StatusOK, body)
}

func send(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the peer may be gone
}

// encodeError is wire.EncodeError with the one error that is the guest's own.
func encodeError(err error) (wire.Error, int) {
	if errors.Is(err, errUnknownCall) {
		return wire.Error{Code: wire.CodeUnknownCall, Message: err.Error()}, http.StatusNotFound
	}
	return wire.EncodeError(err)
}

func fail(w http.ResponseWriter, err error) {
	e, status := encodeError(err)
	sendError(w, e, status)
}

func sendError(w http.ResponseWriter, e wire.Error, status int) {
	body, _ := json.Marshal(e) // strings alone: cannot fail
	send(w, status, body)
}

func (g *Guest) sayHello(w http.ResponseWriter, _ *http.Request) { answer(w, g.hello) }

func (g *Guest) sayStats(w http.ResponseWriter, _ *http.Request) {
	s := wire.Stats{Calls: g.calls.count(), Terminals: g.terms.set.Running(), Processes: g.table.Living(g.browser.marks()...)}
	g.memory.stats(&s)
	answer(w, s)
}

func (g *Guest) shutdown(w http.ResponseWriter, _ *http.Request) {
	answer(w, struct{}{})
	g.stopOnce.Do(func() { close(g.stop) })
}

func (g *Guest) listCalls(w http.ResponseWriter, _ *http.Request) { answer(w, g.calls.list()) }

func (g *Guest) killCall(w http.ResponseWriter, r *http.Request) {
	var req wire.KillRequest
	if err := decode(w, r, &req); err != nil {
		fail(w, err)
		return
	}
	if req.Cause == "" {
		req.Cause = "stop"
	}
	report, err := g.calls.kill(r.PathValue("id"), req.Cause)
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, report)
}

func (g *Guest) ackCall(w http.ResponseWriter, r *http.Request) {
	if err := g.calls.ack(r.PathValue("id")); err != nil {
		fail(w, err)
		return
	}
	answer(w, struct{}{})
}
