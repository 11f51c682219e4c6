// Package sandbox is the vocabulary of sandboxes: what one is asked to be
// ([Spec]), how it is addressed for ever ([Ref]) and right now ([Handle]), who
// makes, finds and removes it ([Provider]), and in which [State] it is.
//
// The package does no I/O. A provider validates its own part of a Spec; what is
// true for every wall is validated here by [Spec.Validate].
package sandbox
