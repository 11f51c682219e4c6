//go:build !desktop

package app

import "context"

// openDoes says what the program does without a verb.
const openDoes = "serves the screen"

// open starts without a verb: it serves the screen to a browser.
func (c *cli) open(ctx context.Context) error { return c.serve(ctx, serveFlags{}) }
