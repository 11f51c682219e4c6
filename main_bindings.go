//go:build bindings

package main

// The Wails command line builds and runs this to learn of bindings. There are
// none: the window shows the same page as a browser does.
func main() {}
