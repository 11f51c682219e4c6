//go:build linux

package guest_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/execenv"
	"github.com/glovebox-dev/glovebox/backend/guest/client"
	"github.com/glovebox-dev/glovebox/backend/wire"
)

func TestAuth(t *testing.T) {
	p := newPlace(t, uts) // in our pid namespace, where we are not trusted as the host
	p.start()
	tests := []struct {
		name, id string
		secret   []byte
		want     string // in the error; "" for success
	}{
		{"right key", "guest-1", p.secret, ""},
		{"no key", "guest-1", nil, "no key"},
		{"wrong key", "guest-1", []byte("another secret"), "refused the proof"},
		{"another guest", "guest-2", p.secret, "not \"guest-2\""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := p.client(tt.id, tt.secret).Hello(t.Context())
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, execenv.ErrUnreachable) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestAuth_outsideThePidNamespaceIsTrusted(t *testing.T) {
	p := newPlace(t, withNamespace)
	p.start()
	if _, err := p.client("guest-1", nil).Hello(t.Context()); err != nil {
		t.Errorf("the host, without a key: %v", err)
	}
}

// A peer that talks HTTP without a proof gets no answer to it.
func TestAuth_noRequestBeforeTheProof(t *testing.T) {
	p := newPlace(t, uts) // in our pid namespace, where we are not trusted as the host
	p.start()
	conn, err := net.Dial("unix", p.cfg.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	line, err := r.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var g wire.Greeting
	if err := json.Unmarshal(line, &g); err != nil || g.Trusted || len(g.Nonce) != 32 {
		t.Fatalf("greeting %s, %v", line, err)
	}
	if _, err := conn.Write([]byte("GET " + wire.PathHello + " HTTP/1.1\r\nHost: guest\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	line, err = r.ReadBytes('\n')
	if err != nil || !strings.Contains(string(line), `"ok":false`) {
		t.Errorf("answer %s, %v", line, err)
	}
	if rest, err := r.ReadBytes('\n'); err == nil {
		t.Errorf("more: %s", rest)
	}
}

func TestDeriveKey(t *testing.T) {
	a := client.DeriveKey([]byte("s"), "1")
	if !a.Equal(client.DeriveKey([]byte("s"), "1")) || a.Equal(client.DeriveKey([]byte("s"), "2")) || a.Equal(client.DeriveKey([]byte("t"), "1")) {
		t.Error("a key must follow from secret and guest id, and from both")
	}
}
