package lifetime_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/lifetime"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

var _ sandbox.Adopter = (*host)(nil)

// Adopt is Allocate here: what the world holds then is the guest.
func (h *host) Adopt(ctx context.Context, rootTaskID string, spec sandbox.Spec, _ func(sandbox.Step)) (sandbox.Handle, error) {
	return h.Allocate(ctx, rootTaskID, spec)
}

// Resolve finds every place but "removed".
func (h *host) Resolve(_ context.Context, name string) (sandbox.Place, error) {
	if name == "removed" {
		return sandbox.Place{}, sandbox.ErrGone
	}
	return sandbox.Place{ID: name}, nil
}

// A place that was there before is not ours to stop, in whatever words.
func TestStop_adopted(t *testing.T) {
	w := newWorld()
	m, _ := newManager(t, w.host(-1), true)
	if _, err := m.Allocate(t.Context(), "t1", sandbox.Spec{Wall: sandbox.WallDocker, Adopt: "there"}, nil); err != nil {
		t.Fatal(err)
	}
	for name, stop := range map[string]func() error{
		"stop":            func() error { return m.Stop(t.Context(), "t1") },
		"release to stop": func() error { return m.Release(t.Context(), "t1", lifetime.StopOnly) },
		"restart":         func() error { _, err := m.Restart(t.Context(), "t1"); return err },
		"may stop":        func() error { return m.MayStop(t.Context(), "t1", "stop") },
	} {
		if err := stop(); !errors.Is(err, sandbox.ErrForeign) || !strings.Contains(err.Error(), "by hand (docker ") {
			t.Errorf("%s = %v, want it foreign, with what to do", name, err)
		}
	}
	if diff := cmp.Diff([]sandbox.State{sandbox.StateReady}, w.states("t1")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if err := m.MayStop(t.Context(), "none", "stop"); err != nil {
		t.Errorf("MayStop() of nothing = %v", err)
	}
}

// Nobody but who made it can make a place again that was there before.
func TestReprovision_adoptedAndGone(t *testing.T) {
	w := newWorld()
	m, _ := newManager(t, w.host(-1), true)
	if _, err := m.Allocate(t.Context(), "t1", sandbox.Spec{Wall: sandbox.WallDocker, Adopt: "removed"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := m.Release(t.Context(), "t1", lifetime.Remove); err != nil {
		t.Fatal(err)
	}
	_, err := m.Reprovision(t.Context(), "t1", nil)
	if !errors.Is(err, sandbox.ErrGone) || !strings.Contains(err.Error(), "open a new session") || strings.Contains(err.Error(), "re-provision") {
		t.Errorf("Reprovision() = %v, want it gone, and a new session named", err)
	}
	if diff := cmp.Diff([]sandbox.State{sandbox.StateReleased}, w.states("t1")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// Whatever way a place is let go of that was there before, the guest leaves it:
// what a user keeps is the place, which was never ours.
func TestRelease_adopted(t *testing.T) {
	for name, how := range map[string]lifetime.How{"remove": lifetime.Remove, "keep": lifetime.Keep} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			m, _ := newManager(t, w.host(-1), true)
			if _, err := m.Allocate(t.Context(), "t1", sandbox.Spec{Wall: sandbox.WallDocker, Adopt: "there"}, nil); err != nil {
				t.Fatal(err)
			}
			if err := m.Release(t.Context(), "t1", how); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]sandbox.State{sandbox.StateReleased}, w.states("t1")); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if left := w.there(); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
			if _, err := m.Reprovision(t.Context(), "t1", nil); err != nil {
				t.Errorf("Reprovision() = %v", err)
			}
		})
	}
}

func TestAdopt_onlyBehindDocker(t *testing.T) {
	w := newWorld()
	m, _ := newManager(t, w.host(-1), false)
	_, err := m.Allocate(t.Context(), "t1", sandbox.Spec{Wall: sandbox.WallNamespace, Adopt: "there"}, nil)
	if err == nil {
		t.Error("a container was adopted behind the namespace wall")
	}
}
