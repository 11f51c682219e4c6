// Package aio is the Env of a server of the AIO Sandbox HTTP API that somebody
// else runs: attached by its URL, or in a container whose image serves the API.
//
//	server, err := aio.New(aio.Options{BaseURL: "http://127.0.0.1:8080", Auth: sandbox.StaticAPIKey{}})
//	env := server.Env(aio.Place{Wall: sandbox.WallRemote, Workdir: "/workspace"})
//
// What a server is, is found out by asking ([Server.Probe]). Commands go to
// /v1/bash with a hard timeout, and to a terminal session of their own where
// there is no /v1/bash. Files are read by download and changed by short scripts,
// since the API has neither an exclusive create, nor modes, nor a rename; a
// search brings names and candidates over and runs the engine of every other
// place on them. The server needs sh and the GNU coreutils, find, grep and tar,
// as the images that serve this API have them.
//
// Nothing that may have had an effect is sent a second time. What the server
// says is bounded and checked: it may be anybody's. It has no fence against
// another take-up of a task and no proof of a kill; [Env.Where] says so, and an
// outcome after a timeout has no report.
package aio
