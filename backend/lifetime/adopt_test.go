package lifetime_test

import (
	"context"
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

func (h *host) Resolve(context.Context, string) (sandbox.Place, error) {
	return sandbox.Place{}, sandbox.ErrGone
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
