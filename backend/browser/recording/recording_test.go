package recording

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/backend/browser"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func opens(t *testing.T, dir string, limit int64) *recording {
	t.Helper()
	r, err := open(dir, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.close() })
	return r
}

func (r *recording) add(t *testing.T, picture string) bool {
	t.Helper()
	kept, err := r.frame(Entry{At: noon, Tab: 1, URL: "http://a.test/", Width: 1280, Height: 720}, []byte(picture))
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// told is a recording as lines, and what its pictures are.
func (r *recording) told() (lines []string) {
	for _, e := range r.page(0).Entries {
		switch e.Kind {
		case KindFrame:
			b, err := r.picture(e.N)
			lines = append(lines, fmt.Sprintf("%d frame %d %s %v", e.N, e.Picture, b, err))
		case KindAction:
			lines = append(lines, fmt.Sprintf("%d %s", e.N, e.Label))
		case KindGap:
			lines = append(lines, fmt.Sprintf("%d gap %s", e.N, e.Reason))
		}
	}
	return lines
}

func TestRecording_writesNoPictureTwice(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s1")
	r := opens(t, dir, MinLimit)
	big := string(bytes.Repeat([]byte("x"), 5000))
	if !r.add(t, "red") || r.add(t, "red") || !r.add(t, big) || !r.add(t, "red") || !r.add(t, big) {
		t.Error("a frame is kept where it shows something else than the newest, and only there")
	}
	want := []string{"1 frame 1 red <nil>", "2 frame 2 " + big + " <nil>", "3 frame 1 red <nil>", "4 frame 2 " + big + " <nil>"}
	if d := cmp.Diff(want, r.told()); d != "" {
		t.Error(d)
	}
	if n := r.sum().Bytes; n > 7000 {
		t.Errorf("%d bytes for a picture of 5000 that was seen twice", n)
	}

	// The next process knows the pictures too.
	r.close()
	r = opens(t, dir, MinLimit)
	if r.add(t, big) {
		t.Error("the newest frame was kept again after a restart")
	}
	r.add(t, "red")
	if d := cmp.Diff("5 frame 1 red <nil>", r.told()[4]); d != "" {
		t.Error(d)
	}
}

func TestRecording_saysAGapOnce(t *testing.T) {
	r := opens(t, filepath.Join(t.TempDir(), "s1"), MinLimit)
	gap := func(reason string) {
		if err := r.gap(noon, reason, reason); err != nil {
			t.Fatal(err)
		}
	}
	gap(GapHeld)
	r.add(t, "red")
	if err := r.action(Entry{At: noon, Label: "click 3", CallID: "c1", Box: &browser.Box{X: 1}}); err != nil {
		t.Fatal(err)
	}
	gap(GapHeld)
	gap(GapIdle)
	r.add(t, "red")
	want := []string{"1 frame 1 red <nil>", "2 click 3", "3 gap held", "4 frame 1 red <nil>"}
	if d := cmp.Diff(want, r.told()); d != "" {
		t.Error(d)
	}
}

func TestRecording_aHoldIsToldInAnotherGap(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s1")
	r := opens(t, dir, MinLimit)
	gap := func(reason string) {
		if err := r.gap(noon, reason, reason); err != nil {
			t.Fatal(err)
		}
	}
	r.add(t, "red")
	gap(GapIdle)
	r.close()
	r = opens(t, dir, MinLimit)
	for _, reason := range []string{GapEnded, GapBegun, GapBegun, GapHeld, GapHeld, GapBegun, GapIdle, GapEnded} {
		gap(reason)
	}
	want := []string{"1 frame 1 red <nil>", "2 gap idle", "3 gap begun", "4 gap held"}
	if d := cmp.Diff(want, r.told()); d != "" {
		t.Error(d)
	}
}

func TestRecording_belongsToItsOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recordings", "s1")
	r := opens(t, dir, MinLimit)
	r.add(t, "red")
	for path, want := range map[string]os.FileMode{filepath.Dir(dir): 0o700, dir: 0o700, r.segments[0].path: 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %v, want %v", path, got, want)
		}
	}
}

// A process can be killed at any byte of a write.
func TestOpen_cutsATornTail(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole")
	r := opens(t, whole, MinLimit)
	r.add(t, "red")
	r.action(Entry{At: noon, Label: "click 3"})
	r.add(t, "green")
	r.gap(noon, GapHeld, "")
	r.close()
	path := r.segments[0].path
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := r.told()
	ends := []int64{0}
	for _, c := range r.records {
		ends = append(ends, c.offset+c.length)
	}

	for cut := range len(content) {
		dir := filepath.Join(t.TempDir(), "s1")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), content[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		left := 0
		for left+1 < len(ends) && ends[left+1] <= int64(cut) {
			left++
		}
		r := opens(t, dir, MinLimit)
		got := r.told()
		if d := cmp.Diff(all[:left], got, cmp.Transformer("list", func(s []string) string { return fmt.Sprint(s) })); d != "" {
			t.Fatalf("cut at byte %d: %s", cut, d)
		}
		r.add(t, "blue")
		r.close()
		want := append(got, fmt.Sprintf("%d frame %d blue <nil>", left+1, left+1))
		if d := cmp.Diff(want, opens(t, dir, MinLimit).told()); d != "" {
			t.Fatalf("cut at byte %d, and written on: %s", cut, d)
		}
	}
}

// A disk can give back anything.
func TestOpen_believesNoDamagedRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s1")
	r := opens(t, dir, MinLimit)
	r.add(t, "red")
	r.add(t, "green")
	r.close()
	path, first := r.segments[0].path, r.records[0]
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range content {
		damaged := bytes.Clone(content)
		damaged[i] ^= 0x40
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		want := []string{"1 frame 1 red <nil>"}
		if int64(i) < first.offset+first.length {
			want = nil
		}
		if d := cmp.Diff(want, opens(t, dir, MinLimit).told()); d != "" {
			t.Fatalf("byte %d damaged: %s", i, d)
		}
	}
}

func TestRecording_keepsTheNewestPart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s1")
	r := opens(t, dir, MinLimit)
	random := rand.NewChaCha8([32]byte{1})
	picture := func() string {
		b := make([]byte, 20<<10)
		random.Read(b)
		return string(b)
	}
	size := func() (n int64) {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			info, err := f.Info()
			if err != nil {
				t.Fatal(err)
			}
			n += info.Size()
		}
		return n
	}
	var last string
	for range 200 {
		last = picture()
		r.add(t, last)
		if n := size(); n > MinLimit {
			t.Fatalf("%d bytes of at most %d", n, MinLimit)
		}
	}
	info := r.sum()
	if info.Bytes != size() || info.Bytes < MinLimit*3/4 || info.First == 1 || info.Frames != 200-int(info.First)+1 {
		t.Errorf("info %+v with %d bytes on the disk", info, size())
	}
	if got, err := r.picture(200); err != nil || string(got) != last {
		t.Errorf("the newest picture: %d bytes, %v", len(got), err)
	}
	if _, err := r.picture(info.First - 1); !errors.Is(err, ErrNoPicture) {
		t.Errorf("a picture that went: %v", err)
	}
	for _, e := range r.page(0).Entries {
		if _, err := r.picture(e.N); err != nil {
			t.Errorf("picture %d, which is listed: %v", e.N, err)
		}
	}
	r.close()
	if d := cmp.Diff(info, opens(t, dir, MinLimit).sum()); d != "" {
		t.Errorf("after a restart: %s", d)
	}
	if _, err := r.frame(Entry{At: noon}, make([]byte, MinLimit)); err == nil {
		t.Error("a picture as large as the limit was kept")
	}
}

func TestRecording_erased(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s1")
	r := opens(t, dir, MinLimit)
	if err := r.erase(noon); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("erasing nothing made something: %v", err)
	}
	r.add(t, "secret")
	r.add(t, "green")
	if err := r.erase(noon); err != nil {
		t.Fatal(err)
	}
	r.add(t, "secret")
	want := []string{"3 gap erased", "4 frame 4 secret <nil>"}
	if d := cmp.Diff(want, r.told()); d != "" {
		t.Error(d)
	}
	if err := r.erase(noon); err != nil {
		t.Fatal(err)
	}
	r.close()
	for _, name := range []string{"*", "*/*"} {
		files, _ := filepath.Glob(filepath.Join(dir, name))
		for _, f := range files {
			if b, _ := os.ReadFile(f); bytes.Contains(b, []byte("secret")) {
				t.Errorf("%s still has it", f)
			}
		}
	}
	if d := cmp.Diff([]string{"5 gap erased"}, opens(t, dir, MinLimit).told()); d != "" {
		t.Error(d)
	}
}

func TestRecording_pages(t *testing.T) {
	r := opens(t, filepath.Join(t.TempDir(), "s1"), MinLimit)
	const n = pageEntries + 3
	for i := range n {
		if err := r.action(Entry{At: noon, Label: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	first := r.page(0)
	rest := r.page(first.Entries[len(first.Entries)-1].N)
	if len(first.Entries) != pageEntries || !first.More || len(rest.Entries) != 3 || rest.More || rest.Entries[2].N != n {
		t.Errorf("pages of %d (more %v) and %d (more %v)", len(first.Entries), first.More, len(rest.Entries), rest.More)
	}
	if p := r.page(n); len(p.Entries) != 0 || p.More {
		t.Errorf("after the last one: %+v", p)
	}
}

func TestFit(t *testing.T) {
	page := image.NewRGBA(image.Rect(0, 0, 1920, 1200))
	for y := range 1200 {
		for x := range 1920 {
			page.Set(x, y, color.RGBA{R: 200, G: uint8(x * 255 / 1920), B: uint8(y * 255 / 1200), A: 255})
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, page, &jpeg.Options{Quality: 80}); err != nil {
		t.Fatal(err)
	}
	got, err := jpeg.Decode(bytes.NewReader(fit(b.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	if got.Bounds().Dx() != 960 || got.Bounds().Dy() != 600 {
		t.Fatalf("it is %v large", got.Bounds())
	}
	for _, at := range []image.Point{{10, 10}, {480, 300}, {950, 590}} {
		c := color.RGBAModel.Convert(got.At(at.X, at.Y)).(color.RGBA)
		w := page.RGBAAt(at.X*2, at.Y*2)
		for _, d := range []int{int(c.R) - int(w.R), int(c.G) - int(w.G), int(c.B) - int(w.B)} {
			if d > 16 || d < -16 {
				t.Errorf("at %v it is %v, and was %v", at, c, w)
			}
		}
	}

	small := image.NewRGBA(image.Rect(0, 0, 1000, 500))
	b.Reset()
	if err := jpeg.Encode(&b, small, nil); err != nil {
		t.Fatal(err)
	}
	if got := fit(b.Bytes()); !bytes.Equal(got, b.Bytes()) {
		t.Error("a picture that is small enough was changed")
	}
	if got := fit([]byte("none")); string(got) != "none" {
		t.Error("what is no picture was changed")
	}
}

// A picture of a few bytes can say that it is a huge one.
func TestPicture_thatSaysItIsHuge(t *testing.T) {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewRGBA(image.Rect(0, 0, 16, 16)), nil); err != nil {
		t.Fatal(err)
	}
	bomb := b.Bytes()
	at := bytes.Index(bomb, []byte{0xff, 0xc0}) // then its length, its depth, its height and its width
	if at < 0 {
		t.Fatal("no size in the picture")
	}
	copy(bomb[at+5:], []byte{0xff, 0xdc, 0xff, 0xdc})
	if head, err := jpeg.DecodeConfig(bytes.NewReader(bomb)); err != nil || head.Width != 0xffdc || head.Height != 0xffdc {
		t.Fatalf("it says %+v, %v", head, err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if got := fit(bomb); !bytes.Equal(got, bomb) {
		t.Error("it was changed")
	}
	if alike(bomb, bomb) {
		t.Error("it was looked at")
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
		t.Errorf("%d bytes of memory for %d", n, len(bomb))
	}
}

func TestAlike(t *testing.T) {
	draw := func(width, quality int, spot color.Color) []byte {
		page := image.NewRGBA(image.Rect(0, 0, width, width/2))
		for y := range width / 2 {
			for x := range width {
				page.Set(x, y, color.Gray{Y: uint8(60 + x*120/width)})
				if x*100/width == 40 && y*100/width >= 20 && y*100/width < 22 {
					page.Set(x, y, spot)
				}
			}
		}
		var b bytes.Buffer
		if err := jpeg.Encode(&b, page, &jpeg.Options{Quality: quality}); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	if !alike(draw(1280, 80, color.White), draw(960, 45, color.White)) {
		t.Error("the same page by two ways is not alike")
	}
	if alike(draw(1280, 80, color.White), draw(960, 45, color.Black)) {
		t.Error("a page with another mark is alike")
	}
	if alike([]byte("none"), draw(960, 45, color.White)) {
		t.Error("what is no picture is alike")
	}
}
