package app

import "runtime/debug"

// Version is the program's version; a release build sets it.
var Version = "dev"

// Commit returns the commit that the program was built from, or "".
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
