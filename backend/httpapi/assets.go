package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strings"
	"time"
)

// assets serves the UI's files. Names that a build made unique are kept by the
// browser for ever; the page itself is asked for again each time.
func (s *Server) assets() http.Handler {
	start := time.Now()
	own := s.ownScripts()
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
		if name == page {
			w.Header().Set("Content-Security-Policy", policy(own))
		}
		if strings.HasPrefix(name, "assets/") {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		http.ServeContent(w, r, name, start, bytes.NewReader(body))
	})
}

var inlineScript = regexp.MustCompile(`(?s)<script>(.*?)</script>`)

// ownScripts returns the sources of the scripts that stand in the page itself:
// the policy knows each by its hash, and lets no other one run there.
func (s *Server) ownScripts() string {
	if !s.o.Built {
		return ""
	}
	page, err := fs.ReadFile(s.o.Assets, "index.html")
	if err != nil {
		panic(err) // what is built has a page
	}
	var sources strings.Builder
	for _, script := range inlineScript.FindAllSubmatch(page, -1) {
		sum := sha256.Sum256(script[1])
		fmt.Fprintf(&sources, " 'sha256-%s'", base64.StdEncoding.EncodeToString(sum[:]))
	}
	return sources.String()
}
