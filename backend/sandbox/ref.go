package sandbox

import (
	"fmt"
	"net/url"
	"strings"
)

// Ref is the durable address of a sandbox: {base_url}#{sandbox_id}, or the bare
// base URL when the id is empty. It holds no credential.
type Ref string

// EncodeRef joins a base URL and a sandbox id. Both are validated so that
// DecodeRef gives back exactly what went in; a fault wraps ErrRef.
func EncodeRef(baseURL, sandboxID string) (Ref, error) {
	if err := validateBase(baseURL); err != nil {
		return "", err
	}
	if err := validateID(sandboxID); err != nil {
		return "", err
	}
	if sandboxID == "" {
		return Ref(baseURL), nil
	}
	return Ref(baseURL + "#" + sandboxID), nil
}

// DecodeRef splits a Ref on its last '#'. A Ref that EncodeRef could not have
// made is refused with an error that wraps ErrRef.
func DecodeRef(ref Ref) (baseURL, sandboxID string, err error) {
	base, id, found := string(ref), "", false
	if i := strings.LastIndexByte(base, '#'); i >= 0 {
		base, id, found = base[:i], base[i+1:], true
	}
	if found && id == "" {
		return "", "", fmt.Errorf("%w: %q ends in '#' with no sandbox id", ErrRef, masked(string(ref)))
	}
	if err := validateBase(base); err != nil {
		return "", "", err
	}
	if err := validateID(id); err != nil {
		return "", "", err
	}
	return base, id, nil
}

// Scheme returns the scheme of the Ref's base URL, which names its provider, or
// "" for a malformed Ref.
func (r Ref) Scheme() string {
	scheme, _, ok := strings.Cut(string(r), "://")
	if !ok {
		return ""
	}
	return scheme
}

// ID returns the sandbox id of the Ref, or "" when it has none.
func (r Ref) ID() string {
	_, id, err := DecodeRef(r)
	if err != nil {
		return ""
	}
	return id
}

func validateBase(base string) error {
	u, err := url.Parse(base)
	switch {
	case base == "":
		return fmt.Errorf("%w: the base URL is empty", ErrRef)
	case strings.ContainsRune(base, '#'):
		return fmt.Errorf("%w: the base URL %q has a '#'", ErrRef, masked(base))
	case err != nil:
		return fmt.Errorf("%w: the base URL %q does not parse", ErrRef, masked(base))
	case u.Scheme == "" || (u.Host == "" && u.Path == ""):
		return fmt.Errorf("%w: the base URL %q has no scheme or no address", ErrRef, masked(base))
	case u.User != nil:
		return fmt.Errorf("%w: the base URL carries a credential; name an environment variable instead", ErrRef)
	}
	return nil
}

// masked hides what stands before an '@': it may be a credential, also where the
// rest does not parse.
func masked(base string) string {
	if i := strings.LastIndexByte(base, '@'); i >= 0 {
		return "…" + base[i:]
	}
	return base
}

func validateID(id string) error {
	for _, r := range id {
		if r <= ' ' || r == '#' || r == 0x7f {
			return fmt.Errorf("%w: the sandbox id %q has a character that an address cannot hold", ErrRef, id)
		}
	}
	return nil
}
