package script

import (
	"bytes"
	_ "embed"
)

//go:embed demo.json
var demo []byte

// Demo returns the script of the demo. It opens a page where the agent has a browser
// and says so where it has none. Otherwise it needs nothing in the sandbox but a
// POSIX shell with the usual small tools, as busybox is, and can be played
// again in the same workspace.
func Demo() Script {
	s, err := Parse(bytes.NewReader(demo))
	if err != nil {
		panic("the embedded demo: " + err.Error())
	}
	return s
}
