package relay_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/backend/browser/control"
	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
	"github.com/glovebox-dev/glovebox/backend/browser/relay"
	"github.com/glovebox-dev/glovebox/backend/browser/tabs"
)

// stage is a browser that only casts: one tab whose frames come at a steady rate,
// no more than three ahead of their acknowledgement, as Chromium does it.
type stage struct {
	t    testing.TB
	dial devtools.DialFunc

	mu      sync.Mutex
	ws      *websocket.Conn
	casting bool
	sent    int64
	acked   map[int64]bool
	acks    int // that came
	title   int
	image   []byte // what the page looks like
}

func newStage(t testing.TB, image []byte) *stage {
	s := &stage{t: t, acked: map[int64]bool{}, image: image}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer ws.CloseNow()
		s.mu.Lock()
		s.ws = ws
		s.mu.Unlock()
		s.serve(r.Context(), ws)
	}))
	t.Cleanup(srv.Close)
	s.dial = devtools.Endpoint{URL: "ws" + strings.TrimPrefix(srv.URL, "http")}.Dial
	return s
}

func (s *stage) say(format string, a ...any) {
	s.ws.Write(context.Background(), websocket.MessageText, fmt.Appendf(nil, format, a...))
}

func (s *stage) serve(ctx context.Context, ws *websocket.Conn) {
	for {
		_, b, err := ws.Read(ctx)
		if err != nil {
			return
		}
		var m struct {
			ID      int64  `json:"id"`
			Session string `json:"sessionId"`
			Method  string `json:"method"`
			Params  struct {
				ID int64 `json:"sessionId"`
			} `json:"params"`
		}
		// Another sessionId is a string; it is not looked at.
		json.Unmarshal(b, &m)
		s.mu.Lock()
		result := `{}`
		switch m.Method {
		case "Target.setAutoAttach":
			if m.Session == "" {
				s.say(`{"method":"Target.attachedToTarget","params":{"sessionId":"S1","targetInfo":{"targetId":"T1","type":"page","title":"","url":"http://x/","attached":true,"canAccessOpener":false},"waitingForDebugger":false}}`)
			}
		case "Page.startScreencast":
			s.casting = true
			for id := range s.sent { // what was sent before counts no more
				s.acked[id+1] = true
			}
			s.say("%s", s.capture())
		case "Page.stopScreencast":
			s.casting = false
		case "Page.screencastFrameAck":
			s.acked[m.Params.ID] = true
			s.acks++
		case "Runtime.evaluate":
			result = `{"result":{"type":"number","value":1}}`
		case "Page.getFrameTree":
			result = `{"frameTree":{"frame":{"id":"T1","loaderId":"L","url":"http://x/","domainAndRegistry":"","securityOrigin":"","mimeType":"","secureContextType":"Secure","crossOriginIsolatedContextType":"Isolated","gatedAPIFeatures":[]}}}`
		}
		if m.Session != "" {
			s.say(`{"id":%d,"sessionId":%q,"result":%s}`, m.ID, m.Session, result)
		} else {
			s.say(`{"id":%d,"result":%s}`, m.ID, result)
		}
		s.mu.Unlock()
	}
}

// paint sends a frame, unless too many wait for their acknowledgement.
func (s *stage) paint() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if frame := s.capture(); frame != "" {
		s.say("%s", frame)
	}
}

// capture makes a frame of what the page looks like, unless too many wait for their
// acknowledgement. The lock is held.
func (s *stage) capture() string {
	if !s.casting || s.sent-int64(len(s.acked)) >= 3 {
		return ""
	}
	s.sent++
	return fmt.Sprintf(`{"method":"Page.screencastFrame","sessionId":"S1","params":{"data":%q,"sessionId":%d,"metadata":{"offsetTop":0,"pageScaleFactor":1,"deviceWidth":1280,"deviceHeight":633,"scrollOffsetX":0,"scrollOffsetY":0}}}`,
		base64.StdEncoding.EncodeToString(s.image), s.sent)
}

// rename is a change of state, which no viewer may miss.
func (s *stage) rename() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.title++
	s.say(`{"method":"Runtime.bindingCalled","sessionId":"S1","params":{"name":"tellTitle","payload":"title %d","executionContextId":1}}`, s.title)
}

func (s *stage) unacked() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent - int64(len(s.acked))
}

// TestRelay_slowViewers has a viewer that never reads, one that reads now and
// then, and fifty of them, beside a good one.
func TestRelay_slowViewers(t *testing.T) {
	s := newStage(t, bytes.Repeat([]byte{7}, 100<<10))
	b := tabs.New(tabs.Options{Dial: s.dial})
	defer b.Close()
	lease := control.New()
	r := relay.New(relay.Options{Browser: b, Lease: lease})
	defer r.End("")
	if _, err := b.Active(t.Context()); err != nil {
		t.Fatal(err)
	}

	// rate plays two seconds at 30 frames a second and returns how many the good
	// viewer got.
	rate := func() int {
		good := r.Join(relay.View{ID: "good"})
		defer good.Leave()
		var got atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				m, err := good.Next(ctx)
				if err != nil {
					return
				}
				if m.Frame != nil {
					got.Add(1)
				}
			}
		})
		for !func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.casting }() {
			<-time.After(10 * time.Millisecond)
		}
		tick := time.NewTicker(time.Second / 30)
		defer tick.Stop()
		for i := range 60 {
			<-tick.C
			s.paint()
			if i%10 == 0 {
				s.rename()
			}
		}
		cancel()
		wg.Wait()
		return int(got.Load())
	}

	// A machine that is busy with something else is not the viewers' fault: what was
	// got alone and beside them, one right after the other, is compared, and the best
	// of five counts.
	var alone, beside int
	var grown int64
	var never *relay.Viewer
	var crowd []*relay.Viewer
	for range 5 {
		alone = rate()
		never, crowd = r.Join(relay.View{ID: "never"}), nil
		for i := range 50 {
			crowd = append(crowd, r.Join(relay.View{ID: fmt.Sprint("slow", i)}))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, v := range crowd {
			wg.Go(func() {
				second := time.NewTicker(time.Second)
				defer second.Stop()
				for {
					if _, err := v.Next(ctx); err != nil {
						return
					}
					select {
					case <-second.C:
					case <-ctx.Done():
						return
					}
				}
			})
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		beside = rate()
		runtime.GC()
		runtime.ReadMemStats(&after)
		cancel()
		wg.Wait()
		grown = max(grown, int64(after.HeapAlloc)-int64(before.HeapAlloc))
		t.Logf("frames in 2 s: alone %d, beside 51 slow viewers %d", alone, beside)
		if beside >= alone*8/10 {
			break
		}
		for _, v := range append(crowd, never) {
			v.Leave()
		}
		never, crowd = nil, nil
	}
	if never == nil {
		t.Fatalf("a good viewer got %d frames beside slow ones, %d alone", beside, alone)
	}
	if grown > 32<<20 {
		t.Errorf("memory grew by %d MB", grown>>20)
	}

	// A frame that is still on its way would be a new one to who resumes.
	s.mu.Lock()
	sent := uint64(s.sent)
	s.mu.Unlock()
	for limit := time.Now().Add(20 * time.Second); r.Stats().Frames < sent; <-time.After(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d frames were sent, and %d came", sent, r.Stats().Frames)
		}
	}

	// Who resumes gets the state, whole and newest, then the newest frame, and no
	// backlog.
	s.mu.Lock()
	title := fmt.Sprint("title ", s.title)
	s.mu.Unlock()
	var state *relay.State
	var frames []uint64
	named := func() bool { return state != nil && len(state.Tabs) == 1 && state.Tabs[0].Title == title }
	for patience := 30 * time.Second; ; {
		if named() && len(frames) > 0 {
			patience = 300 * time.Millisecond // for what there is none of
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		m, err := never.Next(ctx)
		cancel()
		if err != nil {
			break
		}
		if m.State != nil {
			state = m.State
		} else {
			frames = append(frames, m.Frame.Seq)
		}
	}
	if !named() {
		t.Errorf("the state of who resumes: %+v, want %s", state, title)
	}
	// A page that comes to rest is made to paint once more, to be sure of its picture.
	s.mu.Lock()
	since := s.sent - int64(sent)
	s.mu.Unlock()
	if n := int64(len(frames)); n < 1 || n > 1+since {
		t.Errorf("who resumes got frames %v, want the newest alone, and the %d since", frames, since)
	}

	// With nobody but the one who does not read, and with nobody at all, every
	// frame is acknowledged in the end.
	for _, v := range crowd {
		v.Leave()
	}
	for range 3 {
		s.paint()
	}
	for i := 0; s.unacked() > 0; i++ {
		if i > 3000 {
			t.Fatalf("%d frames are not acknowledged", s.unacked())
		}
		<-time.After(10 * time.Millisecond)
	}
}

// TestRelay_lastPicture has a browser whose frames come one by one while several are
// on their way: what it paints last is dropped, and must be seen all the same.
func TestRelay_lastPicture(t *testing.T) {
	for name, view := range map[string]relay.View{"prompt": {ID: "prompt"}, "quiet": {ID: "quiet", Quiet: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, []byte{7})
			b := tabs.New(tabs.Options{Dial: s.dial})
			defer b.Close()
			r := relay.New(relay.Options{Browser: b, Lease: control.New()})
			defer r.End("")
			if _, err := b.Active(t.Context()); err != nil {
				t.Fatal(err)
			}
			v := r.Join(view)
			defer v.Leave()
			var shown atomic.Pointer[[]byte]
			go func() {
				for {
					m, err := v.Next(t.Context())
					if err != nil {
						return
					}
					if m.Frame != nil {
						shown.Store(&m.Frame.Image)
					}
				}
			}()
			within := func(what string, holds func() bool) {
				t.Helper()
				for limit := time.Now().Add(time.Minute); !holds(); <-time.After(5 * time.Millisecond) {
					if time.Now().After(limit) {
						t.Fatalf("it never happened: %s", what)
					}
				}
			}
			for round := range 3 {
				within("all acknowledged", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.sent > 0 && s.sent == int64(len(s.acked)) })
				s.mu.Lock()
				var coming []string
				for i := range 4 {
					s.image = []byte{byte(round), byte(i)}
					if frame := s.capture(); frame != "" {
						coming = append(coming, frame)
					}
				}
				last := s.image
				s.mu.Unlock()
				if len(coming) == 4 {
					t.Fatal("the browser drops nothing")
				}
				for _, frame := range coming {
					s.mu.Lock()
					acks := s.acks
					s.say("%s", frame)
					s.mu.Unlock()
					within("an acknowledgement", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.acks > acks })
				}
				within("the last picture", func() bool { seen := shown.Load(); return seen != nil && bytes.Equal(*seen, last) })
			}
			// It comes to rest, and costs nothing then.
			rests, still := r.Stats().Rests, false
			for range 10 {
				<-time.After(1500 * time.Millisecond)
				now := r.Stats().Rests
				if still = now == rests; still {
					break
				}
				rests = now
			}
			if !still || rests < 3 {
				t.Errorf("a still page was made to paint %d times, and rests: %v", rests, still)
			}
		})
	}
}
