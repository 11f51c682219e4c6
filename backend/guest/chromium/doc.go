// Package chromium runs the browser of a sandbox: it finds Chromium in the
// image, starts it when it is first asked for, speaks the DevTools protocol (CDP)
// with it over a pipe, shares that pipe among any number of clients, and ends it
// without leaving a process behind.
//
//	b := chromium.New(chromium.Options{Home: home, Env: env, Look: look, Start: start})
//	client, err := b.Attach(ctx) // starts the browser, or joins the one that runs
//	err = client.Send(ctx, []byte(`{"id":1,"method":"Target.getTargets"}`))
//	answer, err := client.Next(ctx)
//
// Each [Client] sees what it would see on a connection of its own at browser
// level with flat sessions: its own answers, and the events of the sessions that
// it attached. A client that does not take what is sent to it is dropped, and
// the others do not notice.
//
// The browser belongs to the [Browser], not to a client: it goes on when the last
// one leaves. When it ends by itself, the next Attach starts another.
package chromium
