package tools_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/task"
	"github.com/glovebox-dev/glovebox/backend/tools"
)

func TestRead_numbersLines(t *testing.T) {
	b := newBench(t)
	b.put("f", "one\ntwo\r\nthree\n")
	r := b.call("Read", in{"file_path": "f"}, task.CallOK)
	if want := "     1\tone\n     2\ttwo\n     3\tthree\n"; r.Text != want {
		t.Errorf("text = %q, want %q", r.Text, want)
	}
	want := tools.ReadDisplay{Path: b.path("f"), StartLine: 1, Lines: 3, TotalLines: 3, Size: 15}
	if diff := cmp.Diff(want, r.Display); diff != "" {
		t.Errorf("display (-want +got):\n%s", diff)
	}
	if len(r.Files[b.path("f")]) != 64 {
		t.Errorf("files = %v, want the hash of what was read", r.Files)
	}
	b.call("Read", in{"file_path": b.path("f"), "offset": 2, "limit": 1}, task.CallOK, "     2\ttwo\n", "showing lines 2–2 of 3; use offset=3")
}

func TestRead_saysWhatIsNotThere(t *testing.T) {
	b := newBench(t)
	b.put("empty", "")
	b.put("short", "a\nb\n")
	b.put("nul", "a\x00b")
	b.put("odd", "caf\xe9\n")
	b.put("bom", "\xEF\xBB\xBFhello\n")
	b.put("doc.pdf", "%PDF-1.7\n")
	b.put("long", strings.Repeat("é", 5<<20)+"\nend\n")
	b.call("Read", in{"file_path": "empty"}, task.CallOK, "the file exists and is empty")
	b.call("Read", in{"file_path": "short", "offset": 9}, task.CallOK, "offset 9 is past the end", "2 lines")
	b.call("Read", in{"file_path": "missing"}, task.CallError, "no such file")
	b.call("Read", in{"file_path": "."}, task.CallError, "is a directory")
	b.call("Read", in{"file_path": "nul"}, task.CallError, "not UTF-8 text")
	b.call("Read", in{"file_path": "odd"}, task.CallOK, "caf\uFFFD", "some bytes are not UTF-8")
	b.call("Read", in{"file_path": "doc.pdf"}, task.CallError, "is a PDF")
	if r := b.call("Read", in{"file_path": "bom"}, task.CallOK, "     1\thello\n"); strings.Contains(r.Text, "\uFEFF") {
		t.Errorf("the byte order mark is shown: %q", r.Text)
	}
	r := b.call("Read", in{"file_path": "long"}, task.CallOK, "bytes of this line cut", "10,485,765 bytes", "     2\tend")
	if len(r.Text) > 3000 || !utf8.ValidString(r.Text) || strings.Contains(r.Text, "\uFFFD") {
		t.Errorf("a line of 10 MiB gave %d bytes, valid %v", len(r.Text), utf8.ValidString(r.Text))
	}
}

func TestRead_boundsItsText(t *testing.T) {
	b := newBench(t)
	b.put("f", strings.Repeat(strings.Repeat("x", 1999)+"\n", 1500))
	r := b.call("Read", in{"file_path": "f"}, task.CallOK, "cut at 1 MiB", "use offset=")
	if len(r.Text) > 1<<20+1000 {
		t.Errorf("text has %d bytes, want about 1 MiB at most", len(r.Text))
	}
}

func TestRead_image(t *testing.T) {
	b := newBench(t)
	png := "\x89PNG\r\n\x1a\n\x00\x00picture"
	b.put("a.txt", png)
	r := b.call("Read", in{"file_path": "a.txt"}, task.CallOK, "image/png")
	if len(r.Images) != 1 || string(r.Images[0].Data) != png {
		t.Errorf("images = %v, want the picture", r.Images)
	}
	b.put("big.png", png+strings.Repeat("x", 5<<20))
	if r := b.call("Read", in{"file_path": "big.png"}, task.CallError, "over the limit of 5 MiB"); r.Images != nil {
		t.Error("a picture over the limit is shown")
	}
}

func TestWrite_makesFilesWithParents(t *testing.T) {
	b := newBench(t)
	r := b.call("Write", in{"file_path": "a/b/f.txt", "content": "one\ntwo"}, task.CallOK, "Created", "2 lines, 7 bytes")
	b.onDisk("a/b/f.txt", "one\ntwo")
	st, err := os.Stat(b.path("a/b/f.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if st.Mode().Perm() != 0o644 {
		t.Errorf("mode = %v, want 0644", st.Mode())
	}
	d := r.Display.(tools.WriteDisplay)
	if d.Added != 2 || d.Removed != 0 || !d.Created || !strings.Contains(d.Diff, "@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline") {
		t.Errorf("display = %+v", d)
	}
	b.call("Write", in{"file_path": "a/b/f.txt", "content": "three\n"}, task.CallOK, "Wrote") // it knows what it wrote
	b.onDisk("a/b/f.txt", "three\n")
}

func TestWrite_needsAFreshRead(t *testing.T) {
	b := newBench(t)
	b.put("f", "old\n")
	b.call("Write", in{"file_path": "f", "content": "new"}, task.CallError, "was not read yet")
	b.onDisk("f", "old\n")

	b.call("Read", in{"file_path": "f"}, task.CallOK)
	st, err := os.Stat(b.path("f"))
	if err != nil {
		t.Fatal(err)
	}
	b.put("f", "odd\n") // as long, and as old
	if err := os.Chtimes(b.path("f"), st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	b.call("Write", in{"file_path": "f", "content": "new"}, task.CallError, "has changed since you read it")
	b.onDisk("f", "odd\n")

	b.call("Read", in{"file_path": "f"}, task.CallOK)
	if err := os.Chtimes(b.path("f"), st.ModTime().Add(1e9), st.ModTime().Add(1e9)); err != nil {
		t.Fatal(err)
	}
	b.call("Write", in{"file_path": "f", "content": "new"}, task.CallOK) // only touched

	if err := os.Remove(b.path("f")); err != nil {
		t.Fatal(err)
	}
	b.call("Write", in{"file_path": "f", "content": "again"}, task.CallOK, "Created")
	b.onDisk("f", "again")
}

func TestWriteEdit_stayInTheWorkspace(t *testing.T) {
	b := newBench(t)
	outside := t.TempDir()
	if err := os.WriteFile(outside+"/victim", []byte("safe\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside+"/victim", b.path("notes")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside+"/new", b.path("draft")); err != nil {
		t.Fatal(err)
	}
	// On the host itself what lies outside is not read either, whoever asks how.
	for tool, input := range map[string]in{
		"Read": {"file_path": "notes"}, "Grep": {"pattern": "safe", "path": "notes", "output_mode": "content"}, "Glob": {"pattern": "*", "path": outside},
	} {
		b.call(tool, input, task.CallError, "outside the workspace", outside)
	}
	b.call("Read", in{"file_path": outside + "/victim"}, task.CallError, "outside the workspace")
	b.call("Grep", in{"pattern": "safe", "path": outside}, task.CallError, "outside the workspace")
	b.call("Write", in{"file_path": "notes", "content": "x"}, task.CallError, "outside the workspace", outside)
	b.seen[b.path("notes")] = "" // as if it had been read before the link was there
	b.call("Edit", in{"file_path": "notes", "old_string": "safe", "new_string": "x"}, task.CallError, "outside the workspace")
	b.call("Write", in{"file_path": "draft", "content": "x"}, task.CallError)
	b.call("Write", in{"file_path": "../x", "content": "x"}, task.CallError, "outside the workspace")
	if got, err := os.ReadFile(outside + "/victim"); err != nil || string(got) != "safe\n" {
		t.Errorf("victim = %q, %v", got, err)
	}
	if _, err := os.Lstat(outside + "/new"); err == nil {
		t.Error("a dangling link was written through")
	}
}

func TestWrite_refusesTooMuch(t *testing.T) {
	b := newBench(t)
	b.call("Write", json.RawMessage(`{"file_path": "f", "content": "`+strings.Repeat("x", 8<<20+1)+`"}`), task.CallError, "content: has 8,388,609 bytes", "8 MiB")
	if _, err := os.Lstat(b.path("f")); err == nil {
		t.Error("something was written")
	}
}

func TestEdit(t *testing.T) {
	for name, c := range map[string]struct {
		before, old, new string
		all              bool
		after            string // "" when the edit is refused
		says             string
	}{
		"unique":              {"a\nb\nc\n", "b", "B", false, "a\nB\nc\n", "1 occurrence replaced"},
		"windows line ends":   {"alpha\r\nbeta\r\ngamma\r\n", "alpha\nbeta", "ALPHA\nBETA\nNEW", false, "ALPHA\r\nBETA\r\nNEW\r\ngamma\r\n", ""},
		"mixed line ends":     {"a\r\nb\nc\r\n", "b", "B", false, "a\r\nB\nc\r\n", ""},
		"byte order mark":     {"\xEF\xBB\xBFhello\nтест é\n", "hello", "hello2", false, "\xEF\xBB\xBFhello2\nтест é\n", "     1\thello2\n"},
		"literal replacement": {"A X B", "X", "$1 ${HOME} \\1 & $(id) %s {{.}} '\"", false, "A $1 ${HOME} \\1 & $(id) %s {{.}} '\" B", ""},
		"all":                 {"x y x", "x", "$&", true, "$& y $&", "2 occurrences replaced"},
		"overlapping":         {"aaa", "aa", "b", true, "ba", "1 occurrence replaced"},
		"ambiguous":           {"foo\nfoo\n", "foo", "bar", false, "", "not unique"},
		"not there":           {"foo\n", "bar", "baz", false, "", "was not found"},
		"look-alike":          {"“Hello.”\n", `"Hello."`, "x", false, "", "was not found"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.put("f", c.before)
			b.call("Read", in{"file_path": "f"}, task.CallOK)
			input := in{"file_path": "f", "old_string": c.old, "new_string": c.new, "replace_all": c.all}
			if c.after == "" {
				b.call("Edit", input, task.CallError, c.says)
				b.onDisk("f", c.before)
				return
			}
			r := b.call("Edit", input, task.CallOK, c.says)
			b.onDisk("f", c.after)
			if d := r.Display.(tools.EditDisplay); d.Diff == "" || d.Replaced == 0 || d.Added == 0 {
				t.Errorf("display = %+v, want the change", d)
			}
		})
	}
}

func TestEdit_ambiguityNamesLines(t *testing.T) {
	b := newBench(t)
	b.put("f", "foo\nx\nfoo\n")
	b.call("Read", in{"file_path": "f"}, task.CallOK)
	r := b.call("Edit", in{"file_path": "f", "old_string": "foo", "new_string": "bar"}, task.CallError, "1", "3")
	if !strings.Contains(r.Text, "2") {
		t.Errorf("text = %q, want the number of matches", r.Text)
	}
}

func TestEdit_needsARead(t *testing.T) {
	b := newBench(t)
	b.put("f", "a\n")
	b.call("Edit", in{"file_path": "f", "old_string": "a", "new_string": "b"}, task.CallError, "was not read yet")
	b.onDisk("f", "a\n")
	b.call("Read", in{"file_path": "f"}, task.CallOK)
	b.call("Edit", in{"file_path": "f", "old_string": "a", "new_string": "b"}, task.CallOK)
	b.call("Edit", in{"file_path": "f", "old_string": "b", "new_string": "c"}, task.CallOK) // edits chain
	b.call("Write", in{"file_path": "f", "content": "d\n"}, task.CallOK)                    // and lead to a Write
	b.onDisk("f", "d\n")
}

func TestEdit_keepsOutsideChangesAndMakesWriteLook(t *testing.T) {
	b := newBench(t)
	b.put("f", "one\ntwo\n")
	b.call("Read", in{"file_path": "f"}, task.CallOK)
	b.put("f", "one\ntwo\noutside\n")
	b.call("Edit", in{"file_path": "f", "old_string": "one", "new_string": "ONE"}, task.CallOK, "had changed since you read it")
	b.onDisk("f", "ONE\ntwo\noutside\n")
	b.call("Write", in{"file_path": "f", "content": "all mine"}, task.CallError, "has changed since you read it")
	b.onDisk("f", "ONE\ntwo\noutside\n")
}

func TestEdit_diffEqualsTheChange(t *testing.T) {
	b := newBench(t)
	var before strings.Builder
	for i := range 40 {
		fmt.Fprintf(&before, "line %d\n", i+1)
	}
	b.put("f", before.String())
	b.call("Read", in{"file_path": "f"}, task.CallOK)
	r := b.call("Edit", in{"file_path": "f", "old_string": "line 2", "new_string": "LINE 2", "replace_all": true}, task.CallOK)
	d := r.Display.(tools.EditDisplay)
	if d.Added != 11 || d.Removed != 11 || d.Replaced != 11 {
		t.Errorf("display = %d added, %d removed, %d replaced; want 11 each", d.Added, d.Removed, d.Replaced)
	}
	if got := strings.Count(d.Diff, "@@ -"); got != 2 {
		t.Errorf("diff has %d hunks, want 2:\n%s", got, d.Diff)
	}
	if !strings.HasPrefix(d.Diff, "--- a"+b.path("f")+"\n+++ b"+b.path("f")+"\n@@ -1,5 +1,5 @@\n line 1\n-line 2\n+LINE 2\n line 3\n") {
		t.Errorf("diff begins otherwise:\n%s", d.Diff)
	}
	if _, err := exec.LookPath("patch"); err != nil {
		t.Skip("no patch to judge the diff with")
	}
	b.put("g", before.String())
	b.put("f.diff", d.Diff)
	after, err := os.ReadFile(b.path("f"))
	if err != nil {
		t.Fatal(err)
	}
	b.call("Bash", in{"command": "patch -s g f.diff"}, task.CallOK)
	b.onDisk("g", string(after))
}
