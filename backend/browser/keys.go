package browser

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/chromedp/cdproto/input"
)

// key is a key of a US keyboard. Codes are those of UI Events and of Windows,
// which browsers share.
type key struct {
	key  string
	code string
	win  int64
	text string
}

var named = map[string]key{
	"enter":      {"Enter", "Enter", 13, "\r"},
	"tab":        {"Tab", "Tab", 9, ""},
	"escape":     {"Escape", "Escape", 27, ""},
	"backspace":  {"Backspace", "Backspace", 8, ""},
	"delete":     {"Delete", "Delete", 46, ""},
	"insert":     {"Insert", "Insert", 45, ""},
	"home":       {"Home", "Home", 36, ""},
	"end":        {"End", "End", 35, ""},
	"pageup":     {"PageUp", "PageUp", 33, ""},
	"pagedown":   {"PageDown", "PageDown", 34, ""},
	"arrowleft":  {"ArrowLeft", "ArrowLeft", 37, ""},
	"arrowup":    {"ArrowUp", "ArrowUp", 38, ""},
	"arrowright": {"ArrowRight", "ArrowRight", 39, ""},
	"arrowdown":  {"ArrowDown", "ArrowDown", 40, ""},
	"space":      {" ", "Space", 32, " "},
}

// aliases are other names that people and models give keys.
var aliases = map[string]string{
	"return": "enter", "esc": "escape", "del": "delete", "left": "arrowleft", "up": "arrowup",
	"right": "arrowright", "down": "arrowdown", " ": "space", "spacebar": "space", "page_up": "pageup", "page_down": "pagedown",
}

// modifiers are keys that change others, with their bit in an event.
var modifiers = map[string]struct {
	bit int64
	key key
}{
	"alt":     {1, key{"Alt", "AltLeft", 18, ""}},
	"control": {2, key{"Control", "ControlLeft", 17, ""}},
	"meta":    {4, key{"Meta", "MetaLeft", 91, ""}},
	"shift":   {8, key{"Shift", "ShiftLeft", 16, ""}},
}

var modifierAliases = map[string]string{"ctrl": "control", "option": "alt", "cmd": "meta", "command": "meta", "super": "meta", "win": "meta"}

// punctuation maps what a key prints, alone or with Shift, to the key.
var punctuation = map[rune]key{
	'`': {"`", "Backquote", 192, "`"}, '-': {"-", "Minus", 189, "-"}, '=': {"=", "Equal", 187, "="},
	'[': {"[", "BracketLeft", 219, "["}, ']': {"]", "BracketRight", 221, "]"}, '\\': {"\\", "Backslash", 220, "\\"},
	';': {";", "Semicolon", 186, ";"}, '\'': {"'", "Quote", 222, "'"}, ',': {",", "Comma", 188, ","},
	'.': {".", "Period", 190, "."}, '/': {"/", "Slash", 191, "/"}, '+': {"+", "Equal", 187, "+"},
}

// editing are the commands of Chromium's editor that key chords stand for; a key
// event from outside does not trigger them by itself.
var editing = map[string]string{
	"control+a": "selectAll", "control+c": "copy", "control+x": "cut", "control+v": "paste", "control+z": "undo", "control+y": "redo", "control+shift+z": "redo",
}

// keyEvents reads keys like "Enter", "a" or "Control+Shift+K" and returns the
// events of pressing and releasing them.
func keyEvents(keys string) ([]*input.DispatchKeyEventParams, error) {
	parts := strings.Split(keys, "+")
	if keys == "+" || strings.HasSuffix(keys, "++") { // the plus itself: "+" or "Control++"
		parts = append(parts[:max(0, len(parts)-2)], "+")
	}
	var held []string
	var bits int64
	for _, p := range parts[:len(parts)-1] {
		name := strings.ToLower(strings.TrimSpace(p))
		if full, ok := modifierAliases[name]; ok {
			name = full
		}
		m, ok := modifiers[name]
		if !ok {
			return nil, fmt.Errorf("no modifier %q in %q, only Control, Shift, Alt and Meta: %w", p, keys, ErrWrongKind)
		}
		held = append(held, name)
		bits |= m.bit
	}
	k, err := keyOf(parts[len(parts)-1])
	if err != nil {
		return nil, fmt.Errorf("%q: %w", keys, err)
	}
	if r, _ := utf8.DecodeRuneInString(k.key); bits&8 != 0 && utf8.RuneCountInString(k.key) == 1 && unicode.IsLower(r) {
		k.key = strings.ToUpper(k.key)
		k.text = k.key
	}
	if bits&^8 != 0 {
		k.text = "" // a chord types nothing
		if bits&8 == 0 && len(k.key) == 1 {
			k.key = strings.ToLower(k.key)
		}
	}

	var events []*input.DispatchKeyEventParams
	var now int64
	for _, name := range held {
		m := modifiers[name]
		now |= m.bit
		events = append(events, event(input.DispatchKeyEventTypeRawKeyDown, m.key, now))
	}
	down := event(input.DispatchKeyEventTypeKeyDown, k, bits)
	if k.text == "" {
		down.Type = input.DispatchKeyEventTypeRawKeyDown
	}
	if command := editing[strings.Join(append(held, strings.ToLower(k.key)), "+")]; command != "" {
		down.Commands = []string{command}
	}
	up := event(input.DispatchKeyEventTypeKeyUp, k, bits)
	up.Text, up.UnmodifiedText = "", ""
	events = append(events, down, up)
	for i := len(held) - 1; i >= 0; i-- {
		m := modifiers[held[i]]
		now &^= m.bit
		events = append(events, event(input.DispatchKeyEventTypeKeyUp, m.key, now))
	}
	return events, nil
}

func event(kind input.DispatchKeyEventType, k key, bits int64) *input.DispatchKeyEventParams {
	return &input.DispatchKeyEventParams{
		Type: kind, Key: k.key, Code: k.code, WindowsVirtualKeyCode: k.win, NativeVirtualKeyCode: k.win,
		Modifiers: bits, Text: k.text, UnmodifiedText: k.text,
	}
}

func keyOf(name string) (key, error) {
	low := strings.ToLower(name)
	if name != " " {
		low = strings.TrimSpace(low)
	}
	if full, ok := aliases[low]; ok {
		low = full
	}
	if k, ok := named[low]; ok {
		return k, nil
	}
	if full, ok := modifierAliases[low]; ok {
		low = full
	}
	if m, ok := modifiers[low]; ok {
		return m.key, nil
	}
	var f int64
	if n, err := fmt.Sscanf(low, "f%d", &f); n == 1 && err == nil && f >= 1 && f <= 12 {
		return key{fmt.Sprintf("F%d", f), fmt.Sprintf("F%d", f), 111 + f, ""}, nil
	}
	r, size := utf8.DecodeRuneInString(strings.TrimSpace(name))
	if size == 0 || size != len(strings.TrimSpace(name)) || r == utf8.RuneError {
		return key{}, fmt.Errorf("no key %q; keys are Enter, Tab, Escape, Backspace, Delete, Home, End, PageUp, PageDown, ArrowLeft…, F1…F12, Space and single characters: %w", name, ErrWrongKind)
	}
	text := string(r)
	switch {
	case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
		upper := strings.ToUpper(text)
		return key{text, "Key" + upper, int64(upper[0]), text}, nil
	case r >= '0' && r <= '9':
		return key{text, "Digit" + text, int64(r), text}, nil
	}
	if k, ok := punctuation[r]; ok {
		return k, nil
	}
	return key{text, "", 0, text}, nil
}
