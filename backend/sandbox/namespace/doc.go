// Package namespace is the provider of sandboxes that bubblewrap makes: Linux
// namespaces over a root tree from nothing, for machines without a container
// engine. Make one with [New], ask [Provider.Probe] whether the machine can run
// it.
//
// # What keeps a sandbox apart
//
// A sandbox has its own user, pid, mount, ipc, uts, network and cgroup
// namespaces. Its root holds the host's /usr read-only, a short list of files
// of /etc, the workspace and the mounts that were asked for, and nothing else of
// the host: a read-only bind of /run would already do, because a read-only file
// system does not stop a connect to an engine's socket in it. It has no network
// interface but loopback. The kernel is shared.
//
// Everything in it runs as the user who owns the workspace. A Glovebox of root
// therefore starts bubblewrap as that user; one of another user refuses a
// workspace that is not its own. The guest keeps three capabilities, valid in
// the sandbox's user namespace alone; commands get none and cannot make user
// namespaces in which they would have some.
//
// # What lies on the disk
//
// Each sandbox has a box, <data>/boxes/<id>:
//
//	box.json   who it belongs to and what was asked for
//	lock       held by a process of ours while it starts, stops or removes the box
//	run/       guest.sock, the process's identity, why it stopped
//	etc/       the files of /etc that are ours
//	state/     the guest's journal and its lock
//	home/      HOME inside
//	log        what bubblewrap and the guest wrote
//
// A sandbox outlives the process that started it. It is found again by the box,
// and its process by pid, start time and the kernel's boot, never by pid alone.
package namespace
