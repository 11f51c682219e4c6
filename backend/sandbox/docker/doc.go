// Package docker makes sandboxes that are containers, through the Engine API of
// Docker and its look-alikes (Podman, Colima, OrbStack, a rootless engine).
//
// A [Provider] puts the guest's static binary into a container of any Linux
// image as its entrypoint and PID 1, and talks to it over a unix socket in a
// bind-mounted directory. No port is published and no secret goes in:
//
//	p, err := docker.New(docker.Options{DataDir: dir, Instance: id, Secret: secret})
//	h, err := p.Allocate(ctx, root, sandbox.Spec{Image: "debian:12", Workspace: dir})
//	defer p.Release(ctx, root)
//
// What is shown of a container is read back from the engine ([Provider.Inspect],
// [Provider.Watch], [Provider.Describe]). Every call to the engine has a
// deadline: a hanging engine is [sandbox.ErrUnreachable], never a hang.
//
// An image that the engine does not have is pulled ([Provider.Pull]), once for all
// who wait for it; [Provider.ImportTiny] makes a small one without a registry. The
// package builds no other images, and is the only one that imports the Docker
// client.
package docker
