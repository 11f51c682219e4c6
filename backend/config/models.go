package config

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// Vendor says where the models of a vendor are, for those that do not say so
// themselves.
type Vendor struct {
	BaseURL string  `toml:"base_url"` // ANTHROPIC_BASE_URL, OPENAI_BASE_URL, or the vendor's own server
	KeyEnv  *string `toml:"key_env"`  // ANTHROPIC_API_KEY, OPENAI_API_KEY; "" needs no key
}

// Model is one model that a session can be given. Its key is never written
// here: KeyEnv names the variable that holds it.
type Model struct {
	Name      string  `toml:"name"`       // anthropic:NAME or openai:NAME
	Label     string  `toml:"label"`      // the name
	BaseURL   string  `toml:"base_url"`   // the vendor's
	KeyEnv    *string `toml:"key_env"`    // the vendor's; has to be said beside a BaseURL; "" needs no key
	MaxTokens int     `toml:"max_tokens"` // of one answer; anthropic 32000, openai as the server likes
	Sees      *bool   `toml:"sees"`       // true, but false beside an own BaseURL of openai
	Price     *Price  `toml:"price"`      // not known

	Thinking Thinking `toml:"thinking"` // of anthropic: "off", "auto" or a number of tokens; as the server likes
}

// Thinking says whether a model thinks before it answers, and how much. The zero
// value says nothing.
type Thinking struct {
	Mode   string // off, auto or budget
	Budget int    // tokens, of budget
}

// minThinking is the least that the wire takes, and maxAnswer the limit of an
// answer, thinking included, where the file says none.
const (
	minThinking = 1024
	maxAnswer   = 32000
)

// UnmarshalTOML implements toml.Unmarshaler.
func (t *Thinking) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case string:
		if v == "off" || v == "auto" {
			t.Mode = v
			return nil
		}
	case int64:
		if v >= minThinking && v < math.MaxInt32 {
			t.Mode, t.Budget = "budget", int(v)
			return nil
		}
	}
	return fmt.Errorf("is none of \"off\", \"auto\" and a number of tokens from %d on", minThinking)
}

// Price is what a model's tokens cost, in US dollars per million.
type Price struct {
	Input      float64 `toml:"input"`
	Output     float64 `toml:"output"`
	CacheRead  float64 `toml:"cache_read"`
	CacheWrite float64 `toml:"cache_write"`
}

// maxPrice bounds a price to what can be added up.
const maxPrice = 1e6

func (p Price) valid() bool {
	for _, v := range []float64{p.Input, p.Output, p.CacheRead, p.CacheWrite} {
		if !(v >= 0 && v <= maxPrice) { // also not a number
			return false
		}
	}
	return true
}

// variable is how a name of a variable looks, and hardly any key.
var variable = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)

// keyWords are the names under which people write a key itself.
var keyWords = []string{"key", "api_key", "apikey", "token", "auth_token", "secret", "password"}

// unknown says what is wrong with keys that the file has and Config does not.
func unknown(names []string) error {
	for _, n := range names {
		if slices.Contains(keyWords, strings.ToLower(n[strings.LastIndexByte(n, '.')+1:])) {
			return &sandbox.FieldError{Field: n, Reason: "unknown key; a model's key is not written here: name the variable that holds it, as in key_env = \"OPENAI_API_KEY\""}
		}
	}
	return &sandbox.FieldError{Field: strings.Join(names, ", "), Reason: "unknown key; check its spelling"}
}

func (c Config) validateModels() error {
	for prefix, v := range map[string]Vendor{"anthropic": c.Anthropic, "openai": c.OpenAI} {
		if err := validateServer(prefix, v.BaseURL, v.KeyEnv); err != nil {
			return err
		}
	}
	seen := map[string]int{}
	for i, m := range c.Models {
		at := fmt.Sprintf("models[%d]", i)
		vendor, name, _ := strings.Cut(m.Name, ":")
		if vendor != "anthropic" && vendor != "openai" || strings.TrimSpace(name) == "" {
			return &sandbox.FieldError{Field: at + ".name", Reason: fmt.Sprintf("%q is not anthropic:NAME or openai:NAME", m.Name)}
		}
		if first, ok := seen[m.Name]; ok {
			return &sandbox.FieldError{Field: at + ".name", Reason: fmt.Sprintf("%q is models[%d] already", m.Name, first)}
		}
		seen[m.Name] = i
		if err := validateServer(at, m.BaseURL, m.KeyEnv); err != nil {
			return err
		}
		if m.BaseURL != "" && m.KeyEnv == nil {
			// The vendor's key must not go to another server unasked.
			return &sandbox.FieldError{Field: at + ".key_env", Reason: "missing beside base_url; name the variable that holds the key of that server, or write \"\" if it needs none"}
		}
		if m.MaxTokens < 0 {
			return &sandbox.FieldError{Field: at + ".max_tokens", Reason: "cannot be negative"}
		}
		if m.Thinking.Mode != "" && vendor != "anthropic" {
			return &sandbox.FieldError{Field: at + ".thinking", Reason: "is for models of anthropic alone"}
		}
		if limit := cmp.Or(m.MaxTokens, maxAnswer); m.Thinking.Budget >= limit {
			return &sandbox.FieldError{Field: at + ".thinking", Reason: fmt.Sprintf("has to be less than max_tokens, which is %d", limit)}
		}
		if m.Price != nil && !m.Price.valid() {
			return &sandbox.FieldError{Field: at + ".price", Reason: "is not in US dollars per million tokens, from 0 on"}
		}
	}
	return nil
}

func validateServer(at, base string, keyEnv *string) error {
	if keyEnv != nil && *keyEnv != "" && !variable.MatchString(*keyEnv) {
		// The value is not repeated: it may be a key.
		return &sandbox.FieldError{Field: at + ".key_env", Reason: "is not the name of a variable such as OPENAI_API_KEY; the key itself is not written here"}
	}
	return validateBase(at+".base_url", base)
}

// validateBase never repeats the address: it may hold a password.
func validateBase(field, base string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return &sandbox.FieldError{Field: field, Reason: "is not http://HOST… or https://HOST…"}
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return &sandbox.FieldError{Field: field, Reason: "cannot hold a user, a query or a fragment; a key is named with key_env"}
	}
	return nil
}

// FromEnv takes from the environment, as getenv tells it, what the file leaves
// out: where the vendors' models are. A variable that holds no such address is a
// *sandbox.FieldError that names it.
func (c *Config) FromEnv(getenv func(string) string) error {
	for variable, v := range map[string]*Vendor{"ANTHROPIC_BASE_URL": &c.Anthropic, "OPENAI_BASE_URL": &c.OpenAI} {
		if v.BaseURL != "" {
			continue
		}
		base := strings.TrimSpace(getenv(variable))
		if err := validateBase(variable, base); err != nil {
			return err
		}
		v.BaseURL = base
	}
	return nil
}
