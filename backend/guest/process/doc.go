// Package process starts the commands of a guest and knows, until the last of
// them is gone, which process belongs to which command.
//
// A [Table] owns every child of the guest: one goroutine reaps them all, so
// nothing else in the program may wait for a child (os/exec does; do not use
// it beside a Table). Commands are forked from one locked thread that has shed
// what a command must not have.
//
// Each command carries a [Mark] that its descendants inherit and cannot shed: a
// supplementary group of its own, or a UTS namespace of its own. [Table.Kill]
// ends all that carry a mark and proves it with a last scan of /proc.
package process
