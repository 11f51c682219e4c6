package tabs

import (
	"fmt"
	"time"
)

// What a Notice is about.
const (
	NoticeDialog       = "dialog"
	NoticeTabOpened    = "tab_opened"
	NoticeTabClosed    = "tab_closed"
	NoticeTabRefused   = "tab_refused"
	NoticeDownload     = "download"
	NoticeFileChooser  = "file_chooser"
	NoticeCrashed      = "crashed"
	NoticeDisconnected = "disconnected"
	NoticeRestarted    = "restarted"
)

// Notice is something that happened to the browser by itself or as the effect of
// an input: a dialog, a new tab, a download. Text is one line for people and
// models alike.
type Notice struct {
	Seq  uint64    `json:"seq"`
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	Tab  int       `json:"tab,omitzero"` // the tab's number
	Text string    `json:"text"`
	URL  string    `json:"url,omitzero"`
}

// keptNotices is how many are kept for those who ask later.
const keptNotices = 1000

func (b *Browser) notice(kind string, tab *Tab, url, format string, a ...any) *Notice {
	b.seq++
	n := &Notice{Seq: b.seq, At: time.Now(), Kind: kind, URL: told(url), Text: fmt.Sprintf(format, a...)}
	if tab != nil {
		n.Tab = tab.number
	}
	b.notices = append(b.notices, n)
	if len(b.notices) > keptNotices {
		b.notices = b.notices[len(b.notices)-keptNotices:]
	}
	b.ring()
	return n
}

// Seq is the number of the newest notice.
func (b *Browser) Seq() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seq
}

// Notices returns what happened after the notice numbered after, oldest first;
// the last thousand are kept.
func (b *Browser) Notices(after uint64) []Notice {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []Notice
	for _, n := range b.notices {
		if n.Seq > after {
			out = append(out, *n)
		}
	}
	return out
}
