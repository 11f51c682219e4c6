package tabs

import (
	"path"
	"slices"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/target"

	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
)

// The states of a Download.
const (
	DownloadRunning  = "running"
	DownloadDone     = "done"
	DownloadCanceled = "canceled"
)

// Download is a file that a page gave.
type Download struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`          // on disk once it is done, until then as the page suggests it
	Path     string    `json:"path,omitzero"` // as the browser sees it, once it is done
	URL      string    `json:"url"`
	State    string    `json:"state"`
	Received int64     `json:"received"` // bytes
	Total    int64     `json:"total"`    // 0 when the server does not say
	Started  time.Time `json:"started"`
}

// Downloads returns the newest downloads, oldest first.
func (b *Browser) Downloads() []Download {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]Download, 0, len(b.downloads))
	for _, d := range b.downloads {
		out = append(out, *d)
	}
	return out
}

func (b *Browser) downloadBegins(l *link, ev browser.EventDownloadWillBegin) {
	own := b.find(func(t *Tab) bool { return t.frame == ev.FrameID })
	t := own
	if t == nil { // of a frame in it, most likely
		t = b.active
	}
	d := &Download{ID: ev.GUID, Name: ev.SuggestedFilename, URL: told(ev.URL), State: DownloadRunning, Started: time.Now()}
	b.downloads = append(b.downloads, d)
	if len(b.downloads) > keptFiles {
		b.downloads = b.downloads[len(b.downloads)-keptFiles:]
	}
	if b.o.Downloads == "" {
		b.notice(NoticeDownload, t, ev.URL, "Download of %q was refused: this browser has no directory for downloads.", d.Name)
	} else {
		b.notice(NoticeDownload, t, ev.URL, "Download of %q began.", d.Name)
	}
	// A tab that was opened for the file alone has nothing to show.
	if own != nil && own.opener != nil && !own.committed {
		devtools.Post(l.conn, target.CloseTarget, target.CloseTargetParams{TargetID: target.ID(own.target)})
	}
}

func (b *Browser) downloadGoesOn(ev browser.EventDownloadProgress) {
	i := slices.IndexFunc(b.downloads, func(d *Download) bool { return d.ID == ev.GUID })
	if i < 0 {
		return
	}
	d := b.downloads[i]
	if d.State != DownloadRunning {
		return
	}
	d.Received, d.Total = int64(ev.ReceivedBytes), int64(ev.TotalBytes)
	switch ev.State {
	case browser.DownloadProgressStateCompleted:
		d.State = DownloadDone
		if ev.FilePath != "" {
			d.Path, d.Name = ev.FilePath, path.Base(ev.FilePath)
		}
		b.notice(NoticeDownload, nil, d.URL, "Downloaded %q, %d bytes%s.", d.Name, d.Received, at(d.Path))
	case browser.DownloadProgressStateCanceled:
		d.State = DownloadCanceled
		if b.o.Downloads != "" {
			b.notice(NoticeDownload, nil, d.URL, "Download of %q was cancelled after %d bytes.", d.Name, d.Received)
		}
	}
	b.ring()
}

func at(path string) string {
	if path == "" {
		return ""
	}
	return ", to " + path
}
