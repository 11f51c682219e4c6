package docker

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func TestPing_negotiatesBeforeTheFirstRequest(t *testing.T) {
	for _, test := range []struct{ name, newest, oldest, want string }{
		{"oldest engine", "1.24", "1.12", "1.24"},
		{"old engine", "1.41", "1.12", "1.41"},
		{"engine of its own minimum", "1.44", "1.44", "1.44"},
		{"new engine", "1.51", "1.44", "1.51"},
		{"newer than the client", "1.99", "1.44", "1.51"},
	} {
		t.Run(test.name, func(t *testing.T) {
			stub := &stubEngine{newest: test.newest, oldest: test.oldest}
			p := stubProvider(t, stub.start(t))
			info, err := p.Ping(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if info.APIVersion != test.want || info.Version != "stub" || info.Arch != "amd64" || !info.Rootless || !info.Remapped {
				t.Errorf("Ping = %+v", info)
			}
			if info.Endpoint == "" || info.Why != "the docker host setting" {
				t.Errorf("endpoint %q, because of %q", info.Endpoint, info.Why)
			}
			for _, path := range stub.paths {
				if path != "/_ping" && !strings.HasPrefix(path, "/v"+test.want+"/") {
					t.Errorf("a request went to %s", path)
				}
			}
		})
	}
}

// A version that was forced, or that is too old for the engine, is named with the
// engine's own, and with what to do.
func TestPing_namesBothVersions(t *testing.T) {
	for _, test := range []struct {
		name, forced, newest, oldest string
		says                         []string
	}{
		{"forced too new", "1.99", "1.41", "1.12", []string{"1.99", "1.41", "unset DOCKER_API_VERSION"}},
		{"forced too old", "1.30", "1.51", "1.44", []string{"1.30", "1.44", "unset DOCKER_API_VERSION"}},
		{"an engine without any that we know", "", "1.90", "1.80", []string{"1.51", "1.80", "install a newer glovebox"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("DOCKER_API_VERSION", test.forced)
			p := stubProvider(t, (&stubEngine{newest: test.newest, oldest: test.oldest}).start(t))
			_, err := p.Ping(t.Context())
			for _, want := range test.says {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Ping = %v; want it to say %q", err, want)
				}
			}
		})
	}
}

// A sandbox is made with all of its walls on every engine that has them, by the
// newest version that both know, and refused by one that would leave a part out.
func TestCreate_everyVersion(t *testing.T) {
	for _, test := range []struct{ newest, oldest, path string }{
		{"1.24", "1.12", ""},
		{"1.25", "1.12", "/v1.25/containers/create"},
		{"1.30", "1.12", "/v1.30/containers/create"},
		{"1.40", "1.12", "/v1.40/containers/create"},
		{"1.41", "1.12", "/v1.41/containers/create"},
		{"1.44", "1.44", "/v1.44/containers/create"},
		{"1.51", "1.44", "/v1.51/containers/create"},
	} {
		t.Run(test.newest, func(t *testing.T) {
			var path string
			var asked struct {
				container.Config
				HostConfig container.HostConfig
			}
			engine := &stubEngine{newest: test.newest, oldest: test.oldest, handle: map[string]http.HandlerFunc{
				"/images/stub:1/json": func(w http.ResponseWriter, _ *http.Request) {
					io.WriteString(w, `{"Id":"sha256:00","Os":"linux","Architecture":"amd64"}`)
				},
				"/containers/json": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "[]") },
				"/containers/create": func(w http.ResponseWriter, r *http.Request) {
					path = r.URL.Path
					if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
						t.Error(err)
					}
					w.WriteHeader(http.StatusInternalServerError)
					io.WriteString(w, `{"message":"enough for this test"}`)
				},
			}}
			p := stubProvider(t, engine.start(t))
			p.probed.Store(true) // this engine mounts nothing at all
			_, err := p.Allocate(t.Context(), "root", sandbox.Spec{Workspace: t.TempDir()})
			if path != test.path {
				t.Fatalf("the request went to %q, want %q; Allocate = %v", path, test.path, err)
			}
			if test.path == "" {
				for _, want := range []string{"1.24", "1.25", "mounts"} {
					if !errors.Is(err, sandbox.ErrUnsupported) || !strings.Contains(err.Error(), want) {
						t.Errorf("Allocate = %v; want %v that says %q", err, sandbox.ErrUnsupported, want)
					}
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), "enough for this test") {
				t.Errorf("Allocate = %v", err)
			}
			h := asked.HostConfig
			if len(h.Mounts) < 3 || h.NanoCPUs == 0 || h.Memory == 0 || h.PidsLimit == nil || h.NetworkMode != "none" || len(h.CapDrop) == 0 || len(h.SecurityOpt) == 0 || asked.StopTimeout == nil {
				t.Errorf("a part of the walls is missing: %+v", asked)
			}
		})
	}
}
