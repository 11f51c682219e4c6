package remote

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/glovebox-dev/glovebox/backend/llm"
)

// said is what an error's body says. Both wires use one shape, with fewer
// fields on one of them; some local servers give the message alone.
type said struct{ kind, code, message string }

// parse reads an error's body, or the data of an error within a stream.
func parse(data []byte) said {
	var outer struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &outer) != nil {
		return said{}
	}
	var s said
	if json.Unmarshal(outer.Error, &s.message) == nil {
		return s
	}
	var inner struct {
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"` // a string, or with some servers the status as a number
		Message string          `json:"message"`
	}
	if json.Unmarshal(outer.Error, &inner) != nil {
		return said{}
	}
	s = said{kind: inner.Type, message: inner.Message}
	if json.Unmarshal(inner.Code, &s.code) != nil {
		s.code = string(inner.Code)
	}
	return s
}

// statuses give an error within a stream, which has no status of its own, the
// status that the same error has outside of one.
var statuses = map[string]int{
	"invalid_request_error": http.StatusBadRequest,
	"authentication_error":  http.StatusUnauthorized,
	"billing_error":         http.StatusPaymentRequired,
	"permission_error":      http.StatusForbidden,
	"not_found_error":       http.StatusNotFound,
	"request_too_large":     http.StatusRequestEntityTooLarge,
	"rate_limit_error":      http.StatusTooManyRequests,
	"rate_limit_exceeded":   http.StatusTooManyRequests,
	"insufficient_quota":    http.StatusTooManyRequests,
	"overloaded_error":      statusOverloaded,
	"server_overloaded":     statusOverloaded,
	"timeout_error":         http.StatusGatewayTimeout,
}

const statusOverloaded = 529

// inStream returns the fault that an error within a stream names.
func (x *Exchange) inStream(data []byte) error {
	s := parse(data)
	status, known := statuses[s.kind]
	if !known {
		status, known = statuses[s.code]
	}
	if n, err := strconv.Atoi(s.code); !known && err == nil && n >= 400 && n < 600 {
		status, known = n, true
	}
	if !known {
		status = http.StatusInternalServerError
	}
	e := x.classify(status, nil, s)
	e.Status = 0
	return e
}

func (x *Exchange) refusal(status int, h http.Header, data []byte) error {
	return x.classify(status, h, parse(data))
}

// classify finds the kind of a fault and the words for it.
func (x *Exchange) classify(status int, h http.Header, s said) *llm.Error {
	e := &llm.Error{Status: status, RetryAfter: retryAfter(h, time.Now())}
	host, text := x.c.host, strings.ToLower(s.message)
	switch {
	case status == http.StatusPaymentRequired, s.code == "insufficient_quota", s.kind == "insufficient_quota", s.kind == "billing_error",
		strings.Contains(text, "credit balance is too low"):
		e.Kind, e.RetryAfter = llm.NoFunds, 0
		e.Message = fmt.Sprintf("the account at %s has no funds left, or its quota is used up; look at its billing page", host)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		e.Kind, e.Message = llm.NoKey, x.keyWords(status)
	case status == http.StatusTooManyRequests:
		e.Kind, e.Message = llm.RateLimited, fmt.Sprintf("%s allows no more requests at this moment", host)
	case status == statusOverloaded, status == http.StatusServiceUnavailable:
		e.Kind, e.Message = llm.Overloaded, fmt.Sprintf("%s is overloaded", host)
	case status == http.StatusRequestTimeout:
		e.Kind, e.Message = llm.Network, fmt.Sprintf("%s did not get the whole request in time", host)
	case status >= 500:
		e.Kind, e.Message = llm.ServerError, fmt.Sprintf("%s has a fault", host)
	case status == http.StatusRequestEntityTooLarge, s.code == "context_length_exceeded", tooLong(text):
		e.Kind = llm.BadRequest
		e.Message = fmt.Sprintf("the conversation is longer than %s takes; go on in a new session, or with a model that takes more", x.model)
	case status == http.StatusNotFound:
		e.Kind = llm.BadRequest
		e.Message = fmt.Sprintf("%s does not know the model %q; check the model's name, and base_url in the configuration", host, x.model)
	case status >= 300 && status < 400:
		e.Kind = llm.BadRequest
		e.Message = fmt.Sprintf("%s sends requests elsewhere, and a key does not follow; set base_url to the server itself", host)
	default:
		e.Kind, e.Message = llm.BadRequest, fmt.Sprintf("%s refused the request", host)
		if m := x.quote(s.message); m != "" {
			e.Message += ": " + m
		}
	}
	return e
}

// tooLong recognizes the words with which servers refuse a long conversation.
func tooLong(text string) bool {
	for _, words := range []string{"prompt is too long", "maximum context length", "context window", "context length", "exceed_context_size"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// keyWords says what is wrong with the key and names its variable. What the
// server says is left out: some repeat a part of the key.
func (x *Exchange) keyWords(status int) string {
	env := x.c.o.KeyEnv
	switch {
	case env == "":
		return fmt.Sprintf("%s wants a key; name the variable that holds it with key_env in the configuration", x.c.host)
	case x.key == "":
		return fmt.Sprintf("%s wants a key and %s is not set; set %s where Glovebox runs, and start it again", x.c.host, env, env)
	case status == http.StatusForbidden:
		return fmt.Sprintf("%s refused the key in %s, or its use for %s; set %s where Glovebox runs to one that may", x.c.host, env, x.model, env)
	}
	return fmt.Sprintf("%s refused the key in %s; set %s where Glovebox runs to one that is valid", x.c.host, env, env)
}

// maxQuote bounds what is repeated of a server's own words.
const maxQuote = 300

// quote returns a server's words on one line, without the key.
func (x *Exchange) quote(message string) string {
	if x.key != "" {
		message = strings.ReplaceAll(message, x.key, "[key]")
	}
	message = strings.Join(strings.FieldsFunc(message, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if r := []rune(message); len(r) > maxQuote {
		return string(r[:maxQuote]) + "…"
	}
	return message
}

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads when to come again: milliseconds, seconds, or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return clamp(ms * float64(time.Millisecond))
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		return clamp(s * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil {
		return clamp(float64(at.Sub(now)))
	}
	return 0
}

// clamp also takes care of what is no number.
func clamp(d float64) time.Duration {
	switch {
	case d > 0 && d < float64(maxRetryAfter):
		return time.Duration(d)
	case d >= float64(maxRetryAfter):
		return maxRetryAfter
	}
	return 0
}
