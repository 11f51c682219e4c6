package llm

import (
	"fmt"
	"time"
)

// ErrorKind says what kind of fault a model's server, or the way to it, has.
type ErrorKind string

// The kinds. The first four may pass by themselves: see [Error.Temporary].
const (
	Overloaded  ErrorKind = "overloaded"   // 529, 503
	RateLimited ErrorKind = "rate_limited" // 429
	ServerError ErrorKind = "server_error" // another 5xx, or an error inside the stream
	Network     ErrorKind = "network"      // no connection, a stream that was cut or stood still
	Malformed   ErrorKind = "malformed"    // an answer that could not be read
	NoKey       ErrorKind = "no_key"       // 401, 403: the key is missing or refused
	NoFunds     ErrorKind = "no_funds"     // 402, or a quota that is used up
	BadRequest  ErrorKind = "bad_request"  // 400, 404, 413: the same again would fail again
)

// Error is a fault of a model's server. Every Model wraps its faults in one; an
// error that is none is a fault of the program.
type Error struct {
	Kind       ErrorKind
	Status     int           // of HTTP; 0 when there was no answer
	RetryAfter time.Duration // as the server asked; 0 when it did not
	Message    string        // for people: what happened and what to do; no key, no body
}

// Error implements error.
func (e *Error) Error() string {
	if e.Status == 0 {
		return e.Message
	}
	return fmt.Sprintf("%s (HTTP %d)", e.Message, e.Status)
}

// Temporary reports whether the same request may succeed later.
func (e *Error) Temporary() bool {
	switch e.Kind {
	case Overloaded, RateLimited, ServerError, Network, Malformed:
		return true
	}
	return false
}
