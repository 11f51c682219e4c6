// Package lifetime owns the life of every sandbox: one per root task, from the
// row that announces it to the row that says it is released.
//
// The [Manager] writes a ledger row before each effect, so that a crash between
// any two steps leaves nothing unaccounted for; reads every state back from the
// engine, by its events and by one listing every few seconds; keeps the open
// channel to each sandbox's guest; and, at start and from time to time, removes
// what this instance made and no row holds any more.
//
//	m := lifetime.New(lifetime.Options{Providers: providers, Ledger: store, Secret: secret})
//	go m.Run(ctx)
//	b, err := m.Allocate(ctx, task, spec, nil)
//	c, b, err := m.Client(ctx, task)    // for every call: cheap while the channel is open
//	err = m.Release(ctx, task, lifetime.Remove)
//
// Three rules shape the code. Operations on one root task follow each other,
// those of different ones never wait for each other. What was observed before an
// operation never overwrites what the operation did. And a sandbox is removed
// only on a user's word or when it is provably nobody's.
package lifetime
