package app

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the scenarios of testdata/script: what a person types, and
// what comes of it. Those that begin with a wall's name need that wall.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			for _, w := range walls {
				if strings.HasPrefix(name, string(w)) {
					have(t, w)
				}
			}
			testscript.Run(t, testscript.Params{Files: []string{file}, Setup: setupScript, Cmds: scriptCommands})
		})
	}
}

func setupScript(env *testscript.Env) error {
	// Traversable, since a workspace's owner has to reach its sandbox's files.
	if err := os.Chmod(env.WorkDir, 0o755); err != nil {
		return err
	}
	data := filepath.Join(env.WorkDir, "data")
	env.Setenv("GLOVEBOX_DATA", data)
	env.Defer(func() { closeSessions(env.T(), data) }) // also where the scenario stopped half-way
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
	if host, ok := os.LookupEnv("DOCKER_HOST"); ok {
		env.Setenv("DOCKER_HOST", host)
	}
	return nil
}

// closeSessions removes the sandboxes of every session of a data directory.
func closeSessions(t testscript.T, data string) {
	out, err := glovebox("ls", "--json", "--data", data).Output()
	if err != nil {
		return // no scenario left anything that can be listed
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var s struct {
			ID string `json:"session_id"`
		}
		if err := d.Decode(&s); err != nil {
			t.Fatal(err)
		}
		if out, err := glovebox("close", s.ID, "--data", data).CombinedOutput(); err != nil {
			t.Fatal(string(out))
		}
	}
}

var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	// capture NAME sets NAME to the second word of the first line of stdout.
	"capture": func(ts *testscript.TestScript, neg bool, args []string) {
		line, _, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
		words := strings.Fields(line)
		if neg || len(args) != 1 || len(words) < 2 {
			ts.Fatalf("capture NAME: nothing to capture in %q", line)
		}
		ts.Setenv(args[0], words[1])
	},
}
