package tsgen

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

const root = "../../../.."

func TestTypesAreCurrent(t *testing.T) {
	want, err := TypeScript(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, Output))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is stale; run go generate ./backend/httpapi/internal/tsgen (-want +got):\n%s", Output, diff)
	}
}

type inner struct {
	N int `json:"n"`
}

type sample struct {
	inner
	When    time.Time         `json:"when"`
	Took    time.Duration     `json:"took"`
	Bytes   []byte            `json:"bytes"`
	Raw     json.RawMessage   `json:"raw"`
	Any     any               `json:"any"`
	List    []inner           `json:"list"`
	Maybe   *inner            `json:"maybe"`
	Left    []string          `json:"left,omitempty"`
	Map     map[string]string `json:"map"`
	Wall    sandbox.Wall      `json:"wall"`
	Self    *sample           `json:"self"`
	Lists   [][]string        `json:"lists"`
	Skipped string            `json:"-"`
	private string
}

func TestGenerate_fieldTypes(t *testing.T) {
	got, err := Generate(root, []reflect.Type{reflect.TypeOf(sample{private: ""})})
	if err != nil {
		t.Fatal(err)
	}
	want := `export type Wall =
  | "docker"
  | "namespace"
  | "remote"
  | "local";

export interface inner {
  n: number;
}

export interface sample {
  n: number;
  when: string;
  took: number;
  bytes: string | null;
  raw: unknown;
  any: unknown;
  list: inner[] | null;
  maybe: inner | null;
  left?: string[];
  map: Record<string, string> | null;
  wall: Wall;
  self: sample | null;
  lists: (string[] | null)[] | null;
}

`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Generate() (-want +got):\n%s", diff)
	}
}

func TestGenerate_refuses(t *testing.T) {
	type Wall struct {
		A sandbox.Wall `json:"a"`
	}
	type bare struct{ Field int }
	type odd struct {
		C chan int `json:"c"`
	}
	for want, v := range map[string]any{
		"same name": Wall{}, "no json name": bare{}, "no form in TypeScript": odd{},
	} {
		if _, err := Generate(root, []reflect.Type{reflect.TypeOf(v)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Generate(%T) = %v, want an error with %q", v, err, want)
		}
	}
}
