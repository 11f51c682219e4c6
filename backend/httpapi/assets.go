package httpapi

import (
	"bytes"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// assets serves the UI's files. Names that a build made unique are kept by the
// browser for ever; the page itself is asked for again each time.
func (s *Server) assets() http.Handler {
	start := time.Now()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
		page := "index.html"
		if !s.o.Built {
			page = "placeholder.html"
		}
		if name == "" || name == "." {
			name = page
		}
		body, err := fs.ReadFile(s.o.Assets, name)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		if strings.HasPrefix(name, "assets/") {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		http.ServeContent(w, r, name, start, bytes.NewReader(body))
	})
}
