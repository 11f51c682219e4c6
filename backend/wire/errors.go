package wire

import (
	"errors"
	"net/http"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

// CodeUnknownCall answers a request for a call that the guest does not know.
const CodeUnknownCall = "unknown_call"

// codes is the one table between errors, their codes and their statuses.
var codes = []struct {
	err    error
	code   string
	status int
}{
	{execenv.ErrFenced, "fenced", http.StatusConflict},
	{execenv.ErrOutcomeUnknown, "outcome_unknown", http.StatusConflict},
	{execenv.ErrNotFound, "not_found", http.StatusNotFound},
	{execenv.ErrExists, "exists", http.StatusConflict},
	{execenv.ErrPermission, "permission", http.StatusForbidden},
	{execenv.ErrIsDirectory, "is_directory", http.StatusUnprocessableEntity},
	{execenv.ErrNotDirectory, "not_directory", http.StatusUnprocessableEntity},
	{execenv.ErrNotRegular, "not_regular", http.StatusUnprocessableEntity},
	{execenv.ErrEscape, "escape", http.StatusForbidden},
	{execenv.ErrChanged, "changed", http.StatusConflict},
	{execenv.ErrTooLarge, "too_large", http.StatusRequestEntityTooLarge},
	{execenv.ErrBinary, "binary", http.StatusUnprocessableEntity},
	{execenv.ErrPattern, "pattern", http.StatusUnprocessableEntity},
	{execenv.ErrNoMatch, "no_match", http.StatusUnprocessableEntity},
	{execenv.ErrAmbiguous, "ambiguous", http.StatusUnprocessableEntity},
	{execenv.ErrNoChange, "no_change", http.StatusUnprocessableEntity},
	{execenv.ErrWorkdirGone, "workdir_gone", http.StatusUnprocessableEntity},
	{execenv.ErrUnsupported, "unsupported", http.StatusNotImplemented},
	{execenv.ErrNoBrowser, "no_browser", http.StatusNotImplemented},
	{execenv.ErrBrowser, "browser", http.StatusServiceUnavailable},
	{execenv.ErrBusy, "busy", http.StatusTooManyRequests},
	{execenv.ErrInvalid, "invalid", http.StatusBadRequest},
}

// EncodeError returns the body and status that carry err.
func EncodeError(err error) (Error, int) {
	for _, c := range codes {
		if !errors.Is(err, c.err) {
			continue
		}
		e := Error{Code: c.code, Message: err.Error()}
		var p *execenv.PathError
		if errors.As(err, &p) {
			e.Path, e.Detail = p.Path, p.Detail
		}
		return e, c.status
	}
	return Error{Code: "internal", Message: err.Error()}, http.StatusInternalServerError
}

// Err returns the error that e carries; it matches the same sentinel as the
// one that EncodeError was given.
func (e Error) Err() error {
	for _, c := range codes {
		if c.code != e.Code {
			continue
		}
		if e.Path != "" {
			return &execenv.PathError{Path: e.Path, Err: c.err, Detail: e.Detail}
		}
		return &remoteError{e.Message, c.err}
	}
	return &remoteError{e.Message, nil}
}

type remoteError struct {
	message string
	err     error
}

func (e *remoteError) Error() string { return e.message }
func (e *remoteError) Unwrap() error { return e.err }
