package httpapi

import (
	"mime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/backend/execenv"
)

func TestSniff(t *testing.T) {
	for name, c := range map[string]struct{ data, kind, mediaType string }{
		"nothing":            {"", kindText, typeUTF8},
		"text":               {"hello\n", kindText, typeUTF8},
		"text with a mark":   {"\xef\xbb\xbfhello\n", kindText, typeUTF8},
		"other scripts":      {"你好, мир\n", kindText, typeUTF8},
		"colours":            {"\x1b[31mred\x1b[0m\n", kindText, typeUTF8},
		"utf-16":             {"\xff\xfeh\x00i\x00", kindText, typeUTF16LE},
		"utf-16 big endian":  {"\xfe\xff\x00h\x00i", kindText, typeUTF16BE},
		"latin 1":            {"caf\xe9\n", kindBinary, typeOther},
		"a page":             {"<!DOCTYPE html><script>alert(1)</script>", kindText, typeUTF8},
		"an SVG":             {`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`, kindText, typeUTF8},
		"an SVG with a head": {`<?xml version="1.0"?><svg onload="alert(1)"/>`, kindText, typeUTF8},
		"a png":              {"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", kindImage, "image/png"},
		"a jpeg":             {"\xff\xd8\xff\xe0\x00\x10JFIF", kindImage, "image/jpeg"},
		"a gif":              {"GIF89a\x01\x00\x01\x00", kindImage, "image/gif"},
		"a webp":             {"RIFF\x10\x00\x00\x00WEBPVP8 ", kindImage, "image/webp"},
		"a bitmap":           {"BM\x00\x00\x00\x00\x00\x00", kindBinary, typeBytes},
		"a pdf":              {"%PDF-1.7\n", kindBinary, "application/pdf"},
		"an archive":         {"PK\x03\x04\x00\x00", kindBinary, "application/zip"},
		"a program":          {"\x7fELF\x02\x01\x01\x00\x00", kindBinary, typeBytes},
		"zeros":              {"\x00\x00\x00\x00", kindBinary, typeBytes},
		"utf-32":             {"\xff\xfe\x00\x00h\x00\x00\x00", kindBinary, typeBytes},
		"html before a zero": {"<html>\x00", kindBinary, typeBytes},
	} {
		if kind, mediaType := sniff([]byte(c.data)); kind != c.kind || mediaType != c.mediaType {
			t.Errorf("%s: sniff() = %s, %s, want %s, %s", name, kind, mediaType, c.kind, c.mediaType)
		}
	}
}

func TestViewOf(t *testing.T) {
	if v := viewOf(execenv.FileInfo{}, []byte("\xff\xfeh\x00\xe9\x00")); v.Text != "hé" {
		t.Errorf("UTF-16 is shown as %q", v.Text)
	}
	v := viewOf(execenv.FileInfo{}, []byte("hello\n"))
	if v.Truncated || v.Text != "hello\n" || v.Hash != "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03" {
		t.Errorf("viewOf() = %+v", v)
	}
	// The cut falls into a character of three bytes, in either place.
	for _, lead := range []string{"", "a", "ab"} {
		text := (lead + strings.Repeat("你", viewBytes/3+2))[:viewBytes+1]
		v := viewOf(execenv.FileInfo{}, []byte(text))
		if v.Kind != kindText || !v.Truncated || !utf8.ValidString(v.Text) || len(v.Text) > viewBytes || len(v.Text) < viewBytes-3 {
			t.Errorf("after %q: kind %s, truncated %v, %d bytes", lead, v.Kind, v.Truncated, len(v.Text))
		}
	}
	if v := viewOf(execenv.FileInfo{}, []byte("\x00"+strings.Repeat("x", viewBytes))); v.Truncated || v.Text != "" || v.Hash != "" {
		t.Errorf("bytes have a text: %+v", v)
	}
}

func TestAttachment(t *testing.T) {
	for name, want := range map[string]string{
		"plain.txt":                   "plain.txt",
		"two words.txt":               "two words.txt",
		"日本語.txt":                     "日本語.txt",
		"a\r\nSet-Cookie: x=y":        "a__Set-Cookie: x=y",
		"new\nline":                   "new_line",
		`quo"te.txt`:                  `quo"te.txt`,
		`back\slash`:                  "back_slash",
		"a;b.txt":                     "a;b.txt",
		"<img src=x onerror=alert()>": "<img src=x onerror=alert()>",
		"invoice\u202egnp.exe":        "invoice_gnp.exe",
		"percent%41.txt":              "percent%41.txt",
		"bad\xffbytes":                "bad_bytes",
		"\u2028line":                  "_line",
		"..":                          "..",
	} {
		header := attachment(name)
		if strings.ContainsFunc(header, func(r rune) bool { return r < ' ' || r > '~' }) || strings.ContainsAny(header, "<>") {
			t.Errorf("%q: the header %q is not plain", name, header)
		}
		kind, params, err := mime.ParseMediaType(header)
		if plain, _, ok := strings.Cut(header, "; filename*="); ok { // Go's reader takes one form alone
			if _, _, err := mime.ParseMediaType(plain); err != nil {
				t.Errorf("%q: the plain form %q: %v", name, plain, err)
			}
			kind, params, err = mime.ParseMediaType("attachment" + header[len(plain):])
		}
		if err != nil || kind != "attachment" || params["filename"] != want {
			t.Errorf("%q: %s is read as %q, %v, want %q", name, header, params["filename"], err, want)
		}
	}
}
