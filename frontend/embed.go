// Package frontend carries the built UI inside the binary. A fresh clone holds
// only a placeholder, so that it compiles before the UI is built.
package frontend

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Assets returns the files of the UI, and whether it was built. Where it was
// not, the only file is placeholder.html, a page that says how to build it.
func Assets() (fs.FS, bool) {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // "dist" is a valid path
	}
	_, err = fs.Stat(files, "index.html")
	return files, err == nil
}
