package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/pane"
	"github.com/glovebox-dev/glovebox/backend/browser/recording"
	"github.com/glovebox-dev/glovebox/backend/browser/relay"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/session"
	"github.com/glovebox-dev/glovebox/backend/store"
)

// faults is the one table from errors to statuses and codes. The first match
// counts. What is not in it is "internal": its text goes to the log alone.
var faults = []struct {
	err    error
	status int
	code   string
}{
	{errHost, http.StatusMisdirectedRequest, "wrong_host"},
	{errOrigin, http.StatusForbidden, "wrong_origin"},
	{errToken, http.StatusUnauthorized, "unauthorized"},
	{errContentType, http.StatusUnsupportedMediaType, "not_json"},
	{errSockets, http.StatusTooManyRequests, "too_many_sockets"},
	{errNoWindow, http.StatusNotImplemented, "no_window"},
	{ErrNoNotices, http.StatusNotImplemented, "no_notices"},
	{errBody, http.StatusBadRequest, "invalid_body"},
	{errTooLarge, http.StatusRequestEntityTooLarge, "too_large"},
	{errKey, http.StatusBadRequest, "invalid_key"},
	{errKeyUsed, http.StatusUnprocessableEntity, "key_used"},
	{ErrNoBuild, http.StatusConflict, "no_build"},
	{sandbox.ErrSpec, http.StatusUnprocessableEntity, "invalid_field"},
	{sandbox.ErrRef, http.StatusUnprocessableEntity, "invalid_ref"},
	{sandbox.ErrNoWall, http.StatusServiceUnavailable, "no_wall"},
	{session.ErrUnknown, http.StatusNotFound, "unknown_session"},
	{session.ErrEnded, http.StatusConflict, "session_ended"},
	{session.ErrNotRunning, http.StatusConflict, "not_running"},
	{session.ErrBusy, http.StatusConflict, "session_busy"},
	{session.ErrNoApproval, http.StatusConflict, "no_approval"},
	{session.ErrNoQuestion, http.StatusConflict, "no_question"},
	{session.ErrNoRetry, http.StatusConflict, "nothing_to_retry"},
	{session.ErrNoWork, http.StatusConflict, "no_work"},
	{session.ErrWorking, http.StatusConflict, "session_busy"},
	{sandbox.ErrImageInUse, http.StatusConflict, "image_in_use"},
	{session.ErrNotBound, http.StatusConflict, "no_sandbox"},
	{lifetime.ErrHeld, http.StatusConflict, "sandbox_held"},
	{sandbox.ErrGone, http.StatusConflict, "sandbox_lost"},
	{sandbox.ErrStopped, http.StatusConflict, "sandbox_stopped"}, // before execenv.ErrLost, which it comes with
	{execenv.ErrLost, http.StatusConflict, "sandbox_lost"},
	{sandbox.ErrUnreachable, http.StatusServiceUnavailable, "sandbox_unreachable"},
	{execenv.ErrUnreachable, http.StatusServiceUnavailable, "sandbox_unreachable"},
	{sandbox.ErrForeign, http.StatusConflict, "sandbox_foreign"},
	{sandbox.ErrUnsupported, http.StatusNotImplemented, "unsupported"},
	{execenv.ErrUnsupported, http.StatusNotImplemented, "unsupported"},
	{execenv.ErrWorkdirGone, http.StatusConflict, "workspace_missing"},
	{execenv.ErrOutcomeUnknown, http.StatusConflict, "outcome_unknown"},
	{execenv.ErrBusy, http.StatusTooManyRequests, "busy"},
	{execenv.ErrInvalid, http.StatusUnprocessableEntity, "invalid"},
	{execenv.ErrNotFound, http.StatusUnprocessableEntity, "not_found"},
	{execenv.ErrPermission, http.StatusUnprocessableEntity, "permission"},
	{execenv.ErrEscape, http.StatusUnprocessableEntity, "outside_workspace"},
	{execenv.ErrExists, http.StatusConflict, "exists"},
	{execenv.ErrIsDirectory, http.StatusUnprocessableEntity, "is_directory"},
	{execenv.ErrNotDirectory, http.StatusUnprocessableEntity, "not_directory"},
	{execenv.ErrNotRegular, http.StatusUnprocessableEntity, "not_regular"},
	{execenv.ErrChanged, http.StatusConflict, "changed"},
	{execenv.ErrTooLarge, http.StatusRequestEntityTooLarge, "too_large"},
	{recording.ErrNoPicture, http.StatusNotFound, "no_picture"},
	{execenv.ErrNoBrowser, http.StatusConflict, "no_browser"},
	{execenv.ErrBrowser, http.StatusServiceUnavailable, "browser_failed"},
	{pane.ErrNoView, http.StatusConflict, "no_view"},
	{pane.ErrEnded, http.StatusConflict, "browser_ended"},
	{relay.ErrEnded, http.StatusConflict, "browser_ended"},
	{tabs.ErrClosed, http.StatusConflict, "browser_ended"},
	{control.ErrClosed, http.StatusConflict, "browser_ended"},
	{control.ErrHeld, http.StatusConflict, "browser_held"},
	{control.ErrNotHolder, http.StatusConflict, "not_in_control"},
	{relay.ErrNoFrame, http.StatusConflict, "no_frame"},
	{relay.ErrInput, http.StatusUnprocessableEntity, "invalid"},
	{errViewer, http.StatusBadRequest, "invalid_viewer"},
	{tabs.ErrForbidden, http.StatusUnprocessableEntity, "forbidden_address"},
	{tabs.ErrNavigate, http.StatusConflict, "navigation_failed"},
	{tabs.ErrTabs, http.StatusConflict, "too_many_tabs"},
	{tabs.ErrDialog, http.StatusConflict, "dialog_open"},
	{tabs.ErrNoDialog, http.StatusConflict, "no_dialog"},
	{tabs.ErrNoHistory, http.StatusConflict, "no_history"},
	{tabs.ErrGone, http.StatusConflict, "tab_closed"},
	{tabs.ErrCrashed, http.StatusConflict, "page_crashed"},
	{tabs.ErrStuck, http.StatusConflict, "page_stuck"},
	{tabs.ErrBroken, http.StatusServiceUnavailable, "browser_failed"},
	{tabs.ErrUnreachable, http.StatusServiceUnavailable, "browser_failed"},
	{store.ErrBusy, http.StatusServiceUnavailable, "store_busy"},
	{errStopping, http.StatusServiceUnavailable, "stopping"},
	{errStopped, http.StatusServiceUnavailable, "stopping"},
	{context.DeadlineExceeded, http.StatusGatewayTimeout, "timeout"},
	{context.Canceled, 499, "cancelled"}, // the client has gone
}

// describe returns the status and body of an error.
func describe(err error) (int, ErrorBody) {
	body := ErrorBody{Message: err.Error()}
	var field *sandbox.FieldError
	if errors.As(err, &field) {
		body.Field = field.Field
	}
	for _, f := range faults {
		if errors.Is(err, f.err) {
			body.Code = f.code
			return f.status, body
		}
	}
	return http.StatusInternalServerError, internal
}

// errStopping answers a request that the end of the server broke off.
var errStopping = errors.New("the server is stopping: start it again and look at what came of this before you ask anew")

// errStopped is how a command ends that the end of the server has ended.
var errStopped = errors.New("the server is stopping, and stopped the command first: nothing of it runs any more")

// ended returns what an error of a request is due to: the end of the server, where
// that broke it off.
func ended(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), errStopping) {
		return errStopping
	}
	return err
}

// internal is all that a client learns of a fault of ours.
var internal = ErrorBody{Code: "internal", Message: "something went wrong in the server; its log says what"}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	err = ended(r.Context(), err)
	status, body := describe(err)
	if status == http.StatusInternalServerError {
		s.o.Log.ErrorContext(r.Context(), "request", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	reply(w, status, ErrorResponse{Error: body})
}

// reply answers with JSON.
func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may have gone; there is nobody to tell
}
