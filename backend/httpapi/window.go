package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Window is the desktop window that shows this server, where there is one. Its
// methods may be called from several goroutines.
type Window interface {
	// PickFolder asks the person for a directory, in the system's own dialog,
	// and answers "" when none was picked. It waits for the person.
	PickFolder(ctx context.Context, start string) (string, error)

	// OpenLink opens an address outside, in the system's browser.
	OpenLink(address string) error

	// Notify shows a notification of the system.
	Notify(title, body string) error

	// Show brings the window to the front.
	Show() error
}

// ErrNoNotices is wrapped by the error of a Window whose system shows none.
var ErrNoNotices = errors.New("this desktop shows no notifications")

var errNoWindow = errors.New("this server has no window; it is shown in a browser")

// The most that a notification shows of what it is given, in bytes.
const (
	maxNoticeTitle = 200
	maxNoticeBody  = 1000
)

// inWindow answers a request of the page that the window can carry out.
func inWindow[In any](s *Server, do func(ctx context.Context, w Window, in In) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		in, err := decode[In](r)
		if err == nil && s.o.Window == nil {
			err = errNoWindow
		}
		var out any
		if err == nil {
			out, err = do(r.Context(), s.o.Window, in)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		reply(w, http.StatusOK, out)
	}
}

func pickFolder(ctx context.Context, w Window, in FolderRequest) (any, error) {
	path, err := w.PickFolder(ctx, in.Start)
	return FolderResponse{Path: path}, err
}

func openLink(_ context.Context, w Window, in LinkRequest) (any, error) {
	u, err := url.Parse(in.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, &sandbox.FieldError{Field: "url", Reason: fmt.Sprintf("%q is not an http or https address", clip(in.URL, 200))}
	}
	return struct{}{}, w.OpenLink(u.String())
}

func notify(_ context.Context, w Window, in NotifyRequest) (any, error) {
	return struct{}{}, w.Notify(clip(in.Title, maxNoticeTitle), clip(in.Body, maxNoticeBody))
}

func showWindow(_ context.Context, w Window, _ struct{}) (any, error) {
	return struct{}{}, w.Show()
}
