package aio_test

import (
	"path/filepath"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/execenv/aio"
	"github.com/glovebox-dev/glovebox/backend/execenv/aio/aiotest"
	"github.com/glovebox-dev/glovebox/backend/execenv/envtest"
	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// generations are the servers there are, each as the fake plays it and as the
// adapter is to know it.
var generations = []struct {
	name string
	fake aiotest.Generation
	want aio.Generation
}{
	{"older", aiotest.Older, aio.Older},
	{"piped", aiotest.Piped, aio.Piped},
	{"daemon", aiotest.Daemon, aio.Daemon},
}

// open returns an Env over a fake server and a directory that its commands can
// write to.
func open(t *testing.T, o aiotest.Options) (*aiotest.Server, *aio.Server, *aio.Env) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o.Workspace = dir
	fake := aiotest.Start(t, o)
	server, err := aio.New(aio.Options{BaseURL: fake.URL, Auth: sandbox.StaticAPIKey{EnvName: "AIO_TEST_KEY"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return fake, server, server.Env(aio.Place{Wall: sandbox.WallRemote, Workdir: dir})
}

// The suite that every Env passes, over a server of every generation.
func TestEnv(t *testing.T) {
	for _, g := range generations {
		t.Run(g.name, func(t *testing.T) {
			older := g.want == aio.Older
			envtest.Test(t, func(t *testing.T) (execenv.Env, string) {
				_, _, env := open(t, aiotest.Options{Generation: g.fake})
				return env, env.Where().Workdir
			}, envtest.Abilities{Remote: &envtest.Limits{Merged: older, MayLinger: older}})
		})
	}
}
