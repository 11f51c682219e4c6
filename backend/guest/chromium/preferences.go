//go:build linux

package chromium

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const (
	preferencesFile = "Default/Preferences"
	maxPreferences  = 16 << 20 // a browser's own are a few hundred KB at most
)

// preferences are what no flag of Chromium says, by their path. Each of them is a
// question to Chromium's makers that no page has asked for.
var preferences = []struct {
	path  []string
	value any
}{
	{[]string{"profile", "password_manager_leak_detection"}, false}, // has the password that was sent leaked?
	{[]string{"alternate_error_pages", "enabled"}, false},           // is there a portal in the way?
	// Where is the dictionary of the language? The first is the default of the second.
	{[]string{"spellcheck", "dictionary"}, ""},
	{[]string{"spellcheck", "dictionaries"}, []any{}},
}

// prefer writes the preferences into a profile whose browser does not run. What
// else stands there stays; a file that is none is replaced, as Chromium itself
// does. Commands write into the profile too: no link leads out of it.
func prefer(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	all, err := readPreferences(root)
	if err != nil {
		return err
	}
	for _, p := range preferences {
		set(all, p.path, p.value)
	}
	body, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := root.MkdirAll("Default", 0o700); err != nil {
		return err
	}
	tmp := preferencesFile + ".glovebox"
	if err := root.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := root.WriteFile(tmp, body, 0o600); err != nil {
		return err
	}
	return root.Rename(tmp, preferencesFile)
}

// readPreferences returns what stands in a profile. Numbers are kept as they are:
// Chromium's times do not fit into a float.
func readPreferences(root *os.Root) (map[string]any, error) {
	f, err := root.OpenFile(preferencesFile, os.O_RDONLY|unix.O_NONBLOCK, 0) // no pipe holds it up
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]any{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the browser's preferences: %w", err)
	}
	defer f.Close()
	var all map[string]any
	d := json.NewDecoder(io.LimitReader(f, maxPreferences))
	d.UseNumber()
	if d.Decode(&all) != nil || all == nil {
		return map[string]any{}, nil
	}
	return all, nil
}

// set puts a value into nested objects.
func set(all map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		inner, ok := all[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			all[name] = inner
		}
		all = inner
	}
	all[path[len(path)-1]] = value
}
