// Package registrytest is a registry of images for tests: an engine of this
// machine pulls from it, over loopback, as from any other.
//
//	r := registrytest.Start(t)
//	ref := r.Image("app:1")      // one layer, that no other image has
//	r.Hold()                     // layers come slowly, and not to their end
//	go provider.Pull(ctx, ref, report)
//	r.Go()                       // now they do
package registrytest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	manifestType = "application/vnd.docker.distribution.manifest.v2+json"
	configType   = "application/vnd.docker.container.image.v1+json"
	layerType    = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

// LayerSize is about how many bytes the layer of an image has.
const LayerSize = 4 << 20

// How a held layer comes. An engine tells its progress every half megabyte, and
// leaves out what follows within a tenth of a second.
const (
	dripSize  = 128 << 10
	dripEvery = 50 * time.Millisecond
)

// Registry is a registry of a test's own.
type Registry struct {
	t    testing.TB
	host string

	mu        sync.Mutex
	manifests map[string][]byte // by "name/tag"
	blobs     map[string][]byte // by digest
	large     map[string]bool   // digests of layers
	requests  int
	layers    int           // times that a layer was asked for
	held      chan struct{} // closed to let layers go on; nil when none is held
	dripping  int           // held layers that somebody still waits for
	changed   chan struct{} // one wake for each that nobody does any more
	refusal   int           // status of every answer, 0 for none
}

// Start starts a registry that ends with the test.
func Start(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{t: t, manifests: map[string][]byte{}, blobs: map[string][]byte{}, large: map[string]bool{}, changed: make(chan struct{}, 1)}
	server := httptest.NewServer(r)
	r.host = strings.TrimPrefix(server.URL, "http://")
	t.Cleanup(func() {
		r.Go()
		server.CloseClientConnections()
		server.Close()
	})
	return r
}

// Image makes an image of a name and a tag, and returns what an engine calls it.
func (r *Registry) Image(nameTag string) string {
	r.t.Helper()
	body := make([]byte, LayerSize)
	rand.Read(body)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range []struct {
		name string
		body []byte
	}{
		{"etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\n")},
		{"etc/group", []byte("root:x:0:\n")},
		{"opt/filler", body},
	} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644, Size: int64(len(f.body))}); err != nil {
			r.t.Fatal(err)
		}
		w.Write(f.body)
	}
	w.Close()
	var layer bytes.Buffer
	z := gzip.NewWriter(&layer)
	z.Write(archive.Bytes())
	z.Close()

	config := r.marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{digest(archive.Bytes())}},
		"history": []any{map[string]any{"created_by": "test"}},
	})
	entry := func(kind string, blob []byte) map[string]any {
		return map[string]any{"mediaType": kind, "size": len(blob), "digest": digest(blob)}
	}
	manifest := r.marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": entry(configType, config), "layers": []any{entry(layerType, layer.Bytes())},
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, blob := range [][]byte{config, layer.Bytes()} {
		r.blobs[digest(blob)] = blob
	}
	r.large[digest(layer.Bytes())] = true
	name, tag, _ := strings.Cut(nameTag, ":")
	r.manifests[name+"/"+tag], r.manifests[name+"/"+digest(manifest)] = manifest, manifest
	return r.host + "/" + nameTag
}

func (r *Registry) marshal(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		r.t.Fatal(err)
	}
	return body
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Hold has layers come piece by piece, and their last piece not before Go.
func (r *Registry) Hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil {
		r.held = make(chan struct{})
	}
}

// Go lets held layers go on.
func (r *Registry) Go() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != nil {
		close(r.held)
		r.held = nil
	}
}

// Abandoned waits until nobody waits for a held layer any more.
func (r *Registry) Abandoned() {
	r.t.Helper()
	late := time.After(30 * time.Second)
	for {
		r.mu.Lock()
		n := r.dripping
		r.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-r.changed:
		case <-late:
			r.t.Fatalf("%d layers are still waited for", n)
		}
	}
}

// Refuse answers everything with a status from now on.
func (r *Registry) Refuse(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusal = status
}

// Asked returns how many requests there were, and how often a layer was asked for.
func (r *Registry) Asked() (requests, layers int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests, r.layers
}

// ServeHTTP implements http.Handler: as much of a registry as a pull needs.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.requests++
	refusal, held := r.refusal, r.held
	path := strings.TrimPrefix(req.URL.Path, "/v2/")
	name, reference, isManifest := strings.Cut(path, "/manifests/")
	_, want, _ := strings.Cut(path, "/blobs/")
	manifest, blob, large := r.manifests[name+"/"+reference], r.blobs[want], r.large[want]
	if large {
		r.layers++
	}
	r.mu.Unlock()

	switch {
	case refusal != 0:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(refusal)
		fmt.Fprintf(w, `{"errors":[{"code":"UNAUTHORIZED","message":"refused by the test"}]}`)
		return
	case path == "":
		return
	case isManifest && manifest != nil:
		w.Header().Set("Content-Type", manifestType)
		w.Header().Set("Docker-Content-Digest", digest(manifest))
		blob = manifest
	case blob != nil:
		w.Header().Set("Content-Type", "application/octet-stream")
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(blob)))
	if req.Method == http.MethodHead {
		return
	}
	if !large || held == nil {
		w.Write(blob)
		return
	}
	r.mu.Lock()
	r.dripping++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.dripping--
		r.mu.Unlock()
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}()
	drip := time.NewTicker(dripEvery)
	defer drip.Stop()
	for len(blob) > 0 {
		next := drip.C
		if len(blob) <= dripSize {
			next = nil // the last piece waits
		}
		select {
		case <-next:
			w.Write(blob[:dripSize])
			w.(http.Flusher).Flush()
			blob = blob[dripSize:]
		case <-held:
			w.Write(blob)
			return
		case <-req.Context().Done():
			return
		}
	}
}
