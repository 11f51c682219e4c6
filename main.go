//go:build !bindings

// Glovebox gives an AI agent a sealed sandbox to work in, and its owner the
// window and the gloves. See package app for the program.
package main

import (
	"os"

	"github.com/glovebox-dev/glovebox/app"
)

func main() { os.Exit(app.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
