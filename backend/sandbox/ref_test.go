package sandbox_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func TestRef_roundTrips(t *testing.T) {
	for _, tt := range []struct {
		ref      sandbox.Ref
		base, id string
	}{
		{"http://127.0.0.1:32768#abc", "http://127.0.0.1:32768", "abc"},
		{"http://[::1]:8080#x", "http://[::1]:8080", "x"},
		{"https://host.example/a/path/#x", "https://host.example/a/path/", "x"},
		{"https://host.example/a?b=c#x", "https://host.example/a?b=c", "x"},
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080", ""},
		{"docker:///var/run/docker.sock#0123", "docker:///var/run/docker.sock", "0123"},
		{"docker:///run/a%20b/docker.sock#0123", "docker:///run/a%20b/docker.sock", "0123"},
		{"namespace://local#0123", "namespace://local", "0123"},
	} {
		base, id, err := sandbox.DecodeRef(tt.ref)
		if err != nil || base != tt.base || id != tt.id {
			t.Errorf("DecodeRef(%q) = %q, %q, %v, want %q, %q", tt.ref, base, id, err, tt.base, tt.id)
			continue
		}
		if got, err := sandbox.EncodeRef(base, id); err != nil || got != tt.ref {
			t.Errorf("EncodeRef(%q, %q) = %q, %v, want %q", base, id, got, err, tt.ref)
		}
		if tt.ref.ID() != tt.id {
			t.Errorf("%q.ID() = %q, want %q", tt.ref, tt.ref.ID(), tt.id)
		}
	}
}

func TestRef_refusesMalformed(t *testing.T) {
	for _, ref := range []sandbox.Ref{
		"", "#", "#abc", "abc", "abc#x", "http://", "http://#x", "http://host#", "http://host#a#b",
		"http://host#a b", "http://host#a\n", "http://host#\x7f", "http://host:port#x", "http://[::1#x", "http://ho\x00st#x", "://host#x", "http://%zz#x",
	} {
		if base, id, err := sandbox.DecodeRef(ref); !errors.Is(err, sandbox.ErrRef) {
			t.Errorf("DecodeRef(%q) = %q, %q, %v, want ErrRef", ref, base, id, err)
		}
		if ref.ID() != "" {
			t.Errorf("%q.ID() = %q, want nothing", ref, ref.ID())
		}
	}
}

// A credential is neither taken into a ref nor repeated in the refusal.
func TestRef_holdsNoCredential(t *testing.T) {
	for _, base := range []string{
		"http://user:secret@host", "http://secret@host:8080/path", "http://user:secret@[::1]:80",
		"http://user:secret@host:port", "http://user:secret@%zz", "http://user:secret@host#x",
	} {
		if ref, err := sandbox.EncodeRef(base, "x"); !errors.Is(err, sandbox.ErrRef) || strings.Contains(err.Error(), "secret") {
			t.Errorf("EncodeRef(%q) = %q, %v, want a refusal that does not repeat it", base, ref, err)
		}
		if _, _, err := sandbox.DecodeRef(sandbox.Ref(base + "#x")); !errors.Is(err, sandbox.ErrRef) || strings.Contains(err.Error(), "secret") {
			t.Errorf("DecodeRef(%q) = %v, want a refusal that does not repeat it", base+"#x", err)
		}
	}
}

func FuzzDecodeRef(f *testing.F) {
	for _, seed := range []string{"http://127.0.0.1:32768#abc", "http://[::1]:8080#x", "https://h/a/path#x", "namespace://local#0123", "#", "http://u:p@h#x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		base, id, err := sandbox.DecodeRef(sandbox.Ref(text))
		if err != nil {
			if !errors.Is(err, sandbox.ErrRef) {
				t.Errorf("DecodeRef(%q): %v, want ErrRef", text, err)
			}
			return
		}
		if ref, err := sandbox.EncodeRef(base, id); err != nil || string(ref) != text {
			t.Errorf("EncodeRef(%q, %q) = %q, %v, want %q", base, id, ref, err, text)
		}
	})
}
