// Package tools holds what an agent can do in its sandbox: one file per tool,
// with the description that the model reads beside it as Markdown.
//
// A [Tool] turns the model's arguments into one round trip of an
// [execenv.Env] and its answer into a [Result]: a text for the model and a
// display struct for the screen. It knows nothing of approvals, of the log or
// of walls; those are the agent's and the Env's. A [Set] is what one agent gets:
//
//	set := tools.Standard()
//	tool, ok := set.Lookup("Read")
//	result, err := tool.Run(ctx, tools.Call{ID: id, Input: input, Env: env, Known: known})
//
// What goes wrong inside a call is a Result that tells the model what to do
// next. Only what says nothing about the call is an error: see [Tool].
package tools
