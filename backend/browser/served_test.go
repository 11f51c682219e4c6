package browser_test

import (
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/browser/browsertest"
	"github.com/glovebox-dev/glovebox/backend/browser/devtools"
	"github.com/glovebox-dev/glovebox/backend/execenv/aio"
	"github.com/glovebox-dev/glovebox/backend/execenv/aio/aiotest"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// A browser that is reached by the address that an AIO server names behaves as any
// other does.
func TestServed(t *testing.T) {
	t.Setenv("BROWSER_TEST_KEY", "zz-secret")
	for name, story := range map[string]func(*testing.T){
		"numbers": TestClick_numbers, "frames": TestClick_framesAndShadowRoots, "refusals": TestClick_refusals, "type": TestType,
		"dialog": TestDialog, "popup": TestPopup, "actions": TestActions, "extract": TestExtract, "lease": TestLease,
	} {
		t.Run(name, story)
	}
}

// reached is how a story's browser is reached: those of TestServed go through a
// server, behind a gateway that wants a key.
func reached(t *testing.T, place browsertest.Place) devtools.DialFunc {
	if !strings.HasPrefix(t.Name(), "TestServed/") {
		return place.Dial
	}
	fake := aiotest.Start(t, aiotest.Options{Generation: aiotest.Daemon, CDP: place.Chromium.URL, Key: "zz-secret", Prefix: "/gw/box"})
	server, err := aio.New(aio.Options{BaseURL: fake.URL, Auth: sandbox.StaticAPIKey{EnvName: "BROWSER_TEST_KEY"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.CDP
}
