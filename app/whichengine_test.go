package app

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/httpapi"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// dockerWall is what a server says of its docker wall.
func (s *server) dockerWall() httpapi.WallInfo {
	s.t.Helper()
	walls := s.about().Walls
	i := slices.IndexFunc(walls, func(w httpapi.WallInfo) bool { return w.Wall == sandbox.WallDocker })
	if i < 0 {
		s.t.Fatalf("no docker wall among %+v", walls)
	}
	return walls[i]
}

// The screen is told which engine it is, and what made it that one.
func TestEngine_whichAndWhy(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallDocker)
	config := t.TempDir()
	sum := sha256.Sum256([]byte("mine"))
	meta := filepath.Join(config, "contexts", "meta", hex.EncodeToString(sum[:]))
	if err := os.MkdirAll(meta, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(meta, "meta.json"), `{"Name":"mine","Endpoints":{"docker":{"Host":"unix:///var/run/docker.sock"}}}`, 0)
	write(t, filepath.Join(config, "config.json"), `{"currentContext":"mine"}`, 0)
	s := startWith(t, dataDir(t), []string{"DOCKER_CONFIG=" + config, "DOCKER_HOST=", "DOCKER_CONTEXT="})
	w := s.dockerWall()
	if !w.Available || !strings.Contains(w.Detail, "at unix:///var/run/docker.sock (the current docker context (mine))") || !strings.Contains(w.Detail, "API 1.") {
		t.Errorf("the wall is shown as %+v", w)
	}
}

// A context that is not there closes the docker wall with what to mend, and
// nothing else.
func TestEngine_unknownContext(t *testing.T) {
	t.Parallel()
	s := startWith(t, dataDir(t), []string{"DOCKER_CONFIG=" + t.TempDir(), "DOCKER_HOST=", "DOCKER_CONTEXT=nope"})
	w := s.dockerWall()
	if w.Available || !strings.Contains(w.Detail, "DOCKER_CONTEXT (nope) does not exist") || !strings.Contains(w.Detail, "docker context ls") || w.Fix == "" {
		t.Errorf("the wall is shown as %+v", w)
	}
	err := s.call(t.Context(), "POST", "/sessions", httpapi.OpenRequest{Title: "x", Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: sandbox.WallDocker, Image: "debian:12"}}, nil)
	if api := wantCode(t, err, "no_wall"); !strings.Contains(api.Message, "DOCKER_CONTEXT (nope)") {
		t.Errorf("opening a session says %q", api.Message)
	}
	id := s.open(httpapi.OpenRequest{Title: "local", Workspace: workspace(t, 1000), Spec: sandbox.Spec{Wall: sandbox.WallLocal}})
	if r := s.bash(id, "echo works"); !strings.Contains(r.Text, "works") {
		t.Errorf("another wall: %+v", r)
	}
}
