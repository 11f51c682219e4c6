package httpapi

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
)

// A body that is no JSON is said to be that, in no words of a parser.
func TestDecode_notJSON(t *testing.T) {
	_, err := decode[ReleaseRequest](httptest.NewRequest("POST", "/", strings.NewReader("now")))
	if !errors.Is(err, errBody) || !strings.Contains(err.Error(), "not JSON, from byte 2") || strings.Contains(err.Error(), "literal") {
		t.Errorf("decode() = %v", err)
	}
}
