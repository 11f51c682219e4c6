package bench

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// The pages of a site. Chromium takes every loopback address for the sandbox's own,
// so the site has this machine's name.
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

// openSite serves the pages under the machine's name, at an address of its own.
func openSite() (*site, error) {
	name, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	addrs, err := net.LookupHost(name)
	if err != nil {
		return nil, fmt.Errorf("this machine does not find itself by its name, under which the browser is shown a page: %w", err)
	}
	var l net.Listener
	for _, a := range addrs {
		if l, err = net.Listen("tcp", net.JoinHostPort(a, "0")); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the name of this machine is not an address of its own: %w", err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String()) // of a listener it has one
	s := &site{hostPort: net.JoinHostPort(name, port), ended: make(chan error, 1)}
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

// Close ends the site.
func (s *site) Close() error {
	err := s.srv.Close()
	if served := <-s.ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
