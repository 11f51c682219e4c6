// Package guest is the daemon inside a sandbox. It runs commands, keeps their
// output, ends them with proof, serves files and search with exactly the rights
// of the commands' user, and remembers across its own death what was started
// and how it ended.
//
//	g, err := guest.New(cfg, guest.Options{Files: files.New(...)})
//	err = g.Serve(ctx)
//
// [New] changes the whole process: every thread loses the guest's own rights
// and gets the user's, and every child is reaped by the guest. So a guest is
// always a process of its own, see cmd/glovebox-guest, and never part of another
// program. What it speaks is package wire.
package guest
