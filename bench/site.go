package bench

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// The pages of a site.
const (
	paintPage = "/paint"
	stillPage = "/still"
	pressPage = "/press"
)

// pages: one paints thirty times a second as far as it is let, one does nothing, and
// one changes when a button is pressed on it.
var pages = map[string]string{
	paintPage: `<!doctype html><title>paint</title><body style="margin:0;background:#123"><canvas id=c width=1280 height=800></canvas><script>
const x = document.getElementById('c').getContext('2d');
let n = 0;
setInterval(() => {
	const t = n++ / 30;
	x.clearRect(0, 0, 1280, 800);
	for (let i = 0; i < 40; i++) { x.beginPath(); x.fillStyle = 'hsl(' + i * 9 + ',80%,60%)'; x.arc(640 + 500 * Math.sin(t + i), 400 + 300 * Math.cos(t * 1.3 + i * 2), 18, 0, 7); x.fill() }
}, 1000 / 30);
</script>`,
	stillPage: `<!doctype html><title>still</title><body style="margin:40px;font:20px sans-serif"><h1>Nothing moves</h1><p>This page is painted once.</p>`,
	pressPage: `<!doctype html><title>press</title><body style="margin:0;height:100vh;background:#fff"><script>
let n = 0;
addEventListener('mousedown', () => { document.body.style.background = ++n % 2 ? '#147' : '#fff' });
</script>`,
}

// site serves the pages.
type site struct {
	hostPort string
	url      string
	srv      *http.Server
	ended    chan error // its one sender never blocks
}

// openSite serves the pages.
func openSite() (*site, error) {
	l, err := listenOutward()
	if err != nil {
		return nil, fmt.Errorf("serve pages to a sandbox's browser: %w", err)
	}
	s := &site{hostPort: l.Addr().String(), ended: make(chan error, 1)}
	s.url = "http://" + s.hostPort
	s.srv = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(body)) // a browser that went away
	})}
	go func() { s.ended <- s.srv.Serve(l) }()
	return s, nil
}

// listenOutward listens at an address of this machine that is not loopback: Chromium
// takes every loopback address for the sandbox's own. No name has to stand for it.
func listenOutward() (net.Listener, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var faults error
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok || !n.IP.IsGlobalUnicast() {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(n.IP.String(), "0"))
		if err == nil {
			return l, nil
		}
		faults = errors.Join(faults, err)
	}
	if faults == nil {
		faults = errors.New("this machine has no address but loopback")
	}
	return nil, faults
}

// Close ends the site.
func (s *site) Close() error {
	err := s.srv.Close()
	if served := <-s.ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
