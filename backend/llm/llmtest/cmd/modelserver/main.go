// Command modelserver is a scripted model server for tests that need one as a
// process:
//
//	modelserver --wire anthropic --script FILE [--addr 127.0.0.1:0]
//
// It prints one line of JSON once it listens, {"type":"ready","url":"http://…"},
// whose url is a base URL as a client takes it, and serves until it is told to
// end. The script is an llmtest.Script.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/glovebox-dev/glovebox/backend/llm/llmtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "modelserver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	wire := flag.String("wire", "", "anthropic or openai")
	script := flag.String("script", "", "file with the script")
	addr := flag.String("addr", "127.0.0.1:0", "address to listen on")
	flag.Parse()
	if *wire != string(llmtest.Anthropic) && *wire != string(llmtest.OpenAI) {
		return fmt.Errorf("unknown wire %q; choose anthropic or openai", *wire)
	}
	f, err := os.Open(*script)
	if err != nil {
		return fmt.Errorf("open the script: %w", err)
	}
	defer f.Close()
	s, err := llmtest.Parse(f)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	url := "http://" + l.Addr().String()
	if *wire == string(llmtest.OpenAI) {
		url += "/v1"
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"type": "ready", "url": url}); err != nil {
		return err
	}
	server := &http.Server{Handler: llmtest.New(llmtest.Wire(*wire), s)}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
