package app

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
	"github.com/glovebox-dev/glovebox/backend/store"
	"github.com/glovebox-dev/glovebox/backend/task"
)

// After a crash of the server, whatever has become of a session's container
// meanwhile, the session goes back to that container or says why it cannot. It
// never makes another by itself.
func TestResume(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallDocker)
	data := dataDir(t)
	first := start(t, data)
	instance := first.about().Instance
	fates := []string{"running", "exited", "paused", "created", "removed", "foreign"}
	ids, before := map[string]string{}, map[string]sandbox.Ref{}
	for _, fate := range fates {
		ids[fate] = first.opened(sandbox.Spec{Wall: sandbox.WallDocker}, workspace(t, 1000))
		first.mark(ids[fate])
		before[fate] = first.show(ids[fate]).Ref
	}
	image := first.about().DefaultImage
	first.kill()

	engine(t, "stop", before["exited"].ID())
	engine(t, "pause", before["paused"].ID())
	engine(t, "rm", "-f", before["removed"].ID())
	before["created"] = recreated(t, before["created"])
	rebind(t, data, ids["created"], before["created"])
	stranger := engine(t, "create", "--label", "glovebox.instance=other", "--label", "glovebox.session="+ids["foreign"], image, "/bin/true")[0]
	t.Cleanup(func() { engine(t, "rm", "-f", stranger) })
	base, _, _ := sandbox.DecodeRef(before["foreign"])
	before["foreign"] = sandbox.Ref(base + "#" + stranger)
	rebind(t, data, ids["foreign"], before["foreign"])
	there := containersOf(t, instance)

	shared := start(t, data)
	t.Run("fates", func(t *testing.T) {
		for _, fate := range fates {
			t.Run(fate, func(t *testing.T) {
				t.Parallel()
				s, id := shared.in(t), ids[fate]
				switch fate {
				case "removed":
					if v := s.awaitState(id, moments, sandbox.StateLost); v.Sandbox.Cause != sandbox.CauseRemoved {
						t.Errorf("cause %q", v.Sandbox.Cause)
					}
					wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/attach", nil, nil), "sandbox_lost")
				case "foreign":
					wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/attach", nil, nil), "sandbox_foreign")
					if v := s.awaitState(id, moments, sandbox.StateLost); v.Sandbox.Cause != sandbox.CauseForeign {
						t.Errorf("cause %q, want %q", v.Sandbox.Cause, sandbox.CauseForeign)
					}
				default:
					s.post(id, "attach", nil)
					s.awaitState(id, moments, sandbox.StateReady)
					s.marked(id)
				}
				if v := s.show(id); v.Ref != before[fate] {
					t.Errorf("ref %q, want %q", v.Ref, before[fate])
				}
			})
		}
	})
	now := containersOf(t, instance)
	slices.Sort(there)
	slices.Sort(now)
	// The original of the foreign one belongs to nobody now: it may be reaped.
	if extra := slices.DeleteFunc(now, func(id string) bool { return slices.Contains(there, id) }); len(extra) > 0 {
		t.Errorf("containers were made: %v", extra)
	}
	if got := engine(t, "ps", "-aq", "--no-trunc", "--filter", "id="+stranger); len(got) != 1 {
		t.Error("another instance's container was removed")
	}
	shared.kill()
	refs := map[string]string{}
	for _, r := range ledger(t, data) {
		if other, ok := refs[r.Ref.ID()]; ok {
			t.Errorf("%s is the sandbox of %s and of %s", r.Ref, other, r.RootTaskID)
		}
		refs[r.Ref.ID()] = r.RootTaskID
	}
	if len(refs) != len(fates) {
		t.Errorf("%d sandboxes in the ledger, want the %d that were made", len(refs), len(fates))
	}
	last := start(t, data)
	for fate, id := range ids {
		want := 1
		if fate == "created" || fate == "foreign" {
			want = 2 // by rebind
		}
		if n := last.bindings(id); n != want {
			t.Errorf("%s: bound %d times, want %d", fate, n, want)
		}
	}
}

// While the engine does not answer, a session keeps its container and says what
// is wrong; when the engine is back, so is the session.
func TestResume_engineSilent(t *testing.T) {
	t.Parallel()
	have(t, sandbox.WallDocker)
	data, proxy := dataDir(t), newEngineProxy(t)
	env := []string{"DOCKER_HOST=" + proxy.host}
	config := filepath.Join(t.TempDir(), "config.toml") // so that the start asks no engine for a wall
	write(t, config, "[sandbox]\nwall = \"docker\"\n", 0)
	s := startWith(t, data, env, "--config", config)
	id := s.opened(sandbox.Spec{Wall: sandbox.WallDocker}, workspace(t, 1000))
	s.mark(id)
	before, instance := s.show(id), s.about().Instance
	s.kill()

	proxy.mute()
	s = startWith(t, data, env, "--config", config)
	v := s.awaitState(id, 15*time.Second, sandbox.StateUnreachable)
	if v.Sandbox.Cause != sandbox.CauseEngine {
		t.Errorf("unreachable because %q", v.Sandbox.Cause)
	}
	e := wantCode(t, s.call(t.Context(), "POST", "/sessions/"+id+"/attach", nil, nil), "sandbox_unreachable")
	if !strings.Contains(e.Message, "engine") {
		t.Errorf("message %q does not say that the engine is silent", e.Message)
	}
	if v := s.show(id); v.Ref != before.Ref {
		t.Errorf("ref %q while the engine is silent, want %q", v.Ref, before.Ref)
	}
	proxy.speak()
	s.awaitState(id, 15*time.Second, sandbox.StateReady)
	s.marked(id)
	if v := s.show(id); v.Ref != before.Ref || s.bindings(id) != 1 {
		t.Errorf("ref %q, bound %d times; want %q and once", v.Ref, s.bindings(id), before.Ref)
	}
	if all := containersOf(t, instance); len(all) != 1 || all[0] != before.Ref.ID() {
		t.Errorf("containers %v, want %s", all, before.Ref.ID())
	}
}

// ledger returns the rows of a data directory whose server does not run.
func ledger(t testing.TB, data string) []sandbox.Record {
	t.Helper()
	st := openStore(t, data)
	defer st.Close()
	rows, err := st.Records(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func openStore(t testing.TB, data string) *store.Store {
	t.Helper()
	st, err := store.Open(context.Background(), data, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// rebind makes a session's binding name another container.
func rebind(t testing.TB, data, id string, ref sandbox.Ref) {
	t.Helper()
	st := openStore(t, data)
	defer st.Close()
	rec, ok, err := st.LiveRecord(t.Context(), id)
	if err != nil || !ok {
		t.Fatalf("row of %s: %v, %v", id, ok, err)
	}
	rec.Ref, rec.ShortID = ref, ref.ID()[:12]
	if err := st.UpdateRecord(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	bound := &task.TaskHostBound{HostID: "test", ExecEnvRef: ref, Wall: rec.Wall, SandboxID: rec.ShortID, WorkspaceDir: rec.Spec.Workspace}
	event, err := task.Encode(id, id, 0, time.Now(), bound)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Append(t.Context(), event); err != nil {
		t.Fatal(err)
	}
}

// recreated replaces a container by a new one of the same making that was never
// started, and returns its ref.
func recreated(t testing.TB, ref sandbox.Ref) sandbox.Ref {
	t.Helper()
	base, id, err := sandbox.DecodeRef(ref)
	if err != nil {
		t.Fatal(err)
	}
	var old struct {
		Name       string
		Config     map[string]any
		HostConfig json.RawMessage
	}
	engineAPI(t, base, "GET", "/containers/"+id+"/json", nil, &old)
	engine(t, "rm", "-f", id)
	old.Config["HostConfig"] = old.HostConfig
	old.Config["Hostname"] = "" // it is the id's
	var created struct{ ID string }
	engineAPI(t, base, "POST", "/containers/create?name="+strings.TrimPrefix(old.Name, "/"), old.Config, &created)
	return sandbox.Ref(base + "#" + created.ID)
}

// engineAPI makes one request of the engine at a ref's base URL.
func engineAPI(t testing.TB, base, method, path string, in, out any) {
	t.Helper()
	socket := strings.TrimPrefix(base, "docker://")
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://docker"+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, answer, err)
	}
	if err := json.Unmarshal(answer, out); err != nil {
		t.Fatal(err)
	}
}

// boxes returns the names of the directories that sandboxes have in a data
// directory.
func boxes(t testing.TB, data string) (ids []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(data, "boxes"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids
}
