package mountcheck_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/sandbox/mountcheck"
)

// tree makes a directory with every symlink of its own path resolved.
func tree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ws/nested", "skills", "odd: , ü \"x' $HOME"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("ws", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestResolveMounts(t *testing.T) {
	dir := tree(t)
	got, err := mountcheck.ResolveMounts(sandbox.Spec{
		Workspace: filepath.Join(dir, "link") + "/",
		Mounts: []sandbox.Mount{
			{Source: filepath.Join(dir, "skills"), Target: "/workspace/a/b", Mode: sandbox.ReadOnly},
			{Source: filepath.Join(dir, "odd: , ü \"x' $HOME"), Target: "/workspace/a/"},
			{Source: filepath.Join(dir, "link") + "/", Target: "/workspace"},
			{Source: "cache", Target: "/cache", Kind: sandbox.Volume},
			{Source: filepath.Join(dir, "file"), Target: "/data"},
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []sandbox.Mount{
		{Source: filepath.Join(dir, "ws"), Target: "/workspace", Mode: sandbox.ReadWrite, Kind: sandbox.LocalPath},
		{Source: "cache", Target: "/cache", Mode: sandbox.ReadWrite, Kind: sandbox.Volume},
		{Source: filepath.Join(dir, "file"), Target: "/data", Mode: sandbox.ReadWrite, Kind: sandbox.LocalPath},
		{Source: filepath.Join(dir, "odd: , ü \"x' $HOME"), Target: "/workspace/a", Mode: sandbox.ReadWrite, Kind: sandbox.LocalPath},
		{Source: filepath.Join(dir, "skills"), Target: "/workspace/a/b", Mode: sandbox.ReadOnly, Kind: sandbox.LocalPath},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ResolveMounts() differs (-want +got):\n%s", diff)
	}
}

func TestResolveMounts_refusesByField(t *testing.T) {
	dir := tree(t)
	socket := filepath.Join(dir, "s.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	toSocket := filepath.Join(dir, "innocent")
	if err := os.Symlink("/var/run/docker.sock", toSocket); err != nil {
		t.Fatal(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	mount := func(source string) sandbox.Spec {
		return sandbox.Spec{Mounts: []sandbox.Mount{{Source: source, Target: "/m"}}}
	}
	tests := []struct {
		name  string
		spec  sandbox.Spec
		field string
	}{
		{"missing workspace", sandbox.Spec{Workspace: filepath.Join(dir, "none")}, "workspace"},
		{"workspace is a file", sandbox.Spec{Workspace: filepath.Join(dir, "file")}, "workspace"},
		{"workspace is a file, as a mount", sandbox.Spec{Mounts: []sandbox.Mount{{Source: filepath.Join(dir, "file"), Target: "/workspace"}}}, "mounts[0].source"},
		{"workspace is the home", sandbox.Spec{Workspace: home}, "workspace"},
		{"relative", mount("ws"), "mounts[0].source"},
		{"home by tilde", mount("~/ws"), "mounts[0].source"},
		{"missing", mount(filepath.Join(dir, "none")), "mounts[0].source"},
		{"root", mount("/"), "mounts[0].source"},
		{"runtime directory", mount("/run"), "mounts[0].source"},
		{"link to the engine's socket", mount(toSocket), "mounts[0].source"},
		{"a socket", mount(socket), "mounts[0].source"},
		{"kernel", mount("/proc/sys"), "mounts[0].source"},
		{"ours", mount(filepath.Join(dir, "skills")), "mounts[0].source"},
		{"below ours", mount(filepath.Join(dir, "ws/nested")), "mounts[0].source"},
		{"holds ours", mount(dir), "mounts[0].source"},
		{"other machine", sandbox.Spec{Mounts: []sandbox.Mount{{Source: "claim", Target: "/m", Kind: sandbox.PVC}}}, "mounts[0].kind"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := mountcheck.ResolveMounts(tt.spec, []string{filepath.Join(dir, "skills"), filepath.Join(dir, "ws")})
			var fault *sandbox.FieldError
			if !errors.As(err, &fault) || fault.Field != tt.field {
				t.Errorf("ResolveMounts() = %v, %v, want a fault of %s", got, err, tt.field)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("a missing source was created")
	}
}

func TestResolveMounts_saysWhatALinkIs(t *testing.T) {
	dir := tree(t)
	if err := os.Symlink("/proc", filepath.Join(dir, "p")); err != nil {
		t.Fatal(err)
	}
	_, err := mountcheck.ResolveMounts(sandbox.Spec{Workspace: filepath.Join(dir, "p")}, nil)
	if err == nil || !strings.Contains(err.Error(), "(which is /proc)") {
		t.Errorf("ResolveMounts() = %v, want the link's target in it", err)
	}
}

func TestPrivate_freshDataDirectory(t *testing.T) {
	data := t.TempDir()
	_, err := mountcheck.ResolveMounts(sandbox.Spec{Workspace: data}, mountcheck.Private(data))
	if err == nil {
		t.Error("a data directory that holds nothing yet can be mounted")
	}
}

func TestPrivate_allButTheWorkspaces(t *testing.T) {
	data := t.TempDir()
	for _, dir := range []string{"boxes/a/home", mountcheck.Workspaces + "/s-1", "other"} {
		if err := os.MkdirAll(filepath.Join(data, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(data, "token"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]bool{
		data: false, data + "/boxes": false, data + "/boxes/a/home": false, data + "/other": false,
		data + "/token": false, data + "/" + mountcheck.Workspaces + "/s-1": true,
	} {
		_, err := mountcheck.ResolveMounts(sandbox.Spec{Mounts: []sandbox.Mount{{Source: source, Target: "/m"}}}, mountcheck.Private(data))
		if (err == nil) != want {
			t.Errorf("mount of %s: %v, want it allowed: %v", source, err, want)
		}
	}
}

func TestElsewhere(t *testing.T) {
	for path, want := range map[string]string{
		"/srv/work": "", "/home/me/work": "", "/data/workspaces/x": "",
		"/": "holds", "/etc": "holds", "/var": "holds", "/home": "is on", "/home/me": "is on", "/root": "is on",
		"/run/docker.sock": "lies in", "/home/other/.ssh": "lies in", "/srv/x/.aws/sub": "lies in",
		"/data": "holds", "/data/store": "is on", "/data/store/blobs": "lies in",
	} {
		got := mountcheck.Elsewhere(path, []string{"/data/store"})
		if want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("Elsewhere(%s) = %q, want %q", path, got, want)
		}
	}
}
