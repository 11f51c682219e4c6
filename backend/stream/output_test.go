package stream

import (
	"strings"
	"testing"
)

func TestOutput_charactersAreNeverTorn(t *testing.T) {
	const text = "a你😀é\n"
	for size := 1; size <= len(text); size++ {
		o, got, next := NewOutput("r", "t", "c"), "", int64(0)
		for i := 0; i < len(text); i += size {
			f := o.Frame("stdout", int64(i), []byte(text[i:min(i+size, len(text))]))
			if f.Data != "" && f.Offset != next {
				t.Fatalf("size %d: frame at %d, want %d", size, f.Offset, next)
			}
			if f.Data != "" {
				next = f.End
			}
			got += f.Data
		}
		if got != text {
			t.Errorf("size %d: got %q, want %q", size, got, text)
		}
	}
}

func TestOutput_invalidBytesAndGaps(t *testing.T) {
	o := NewOutput("r", "t", "c")
	if f := o.Frame("stdout", 0, []byte("x\xff\xfey")); !strings.Contains(f.Data, "\uFFFD") || f.End != 4 {
		t.Errorf("Frame() = %+v, want U+FFFD and End 4", f)
	}
	o.Frame("stdout", 4, []byte("\xe4\xbd")) // the start of a character that a gap swallows
	if f := o.Frame("stdout", 100, []byte("ok")); f.Data != "ok" || f.Offset != 100 {
		t.Errorf("Frame() after a gap = %+v, want ok at 100", f)
	}
	if f := o.Frame("stderr", 0, []byte("e")); f.Data != "e" {
		t.Errorf("Frame() of the other stream = %+v", f)
	}
}
