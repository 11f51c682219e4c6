package sandbox

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// NetworkMode says what a sandbox can reach.
type NetworkMode string

// The network modes. Behind NetworkNone and NetworkProxy a sandbox has no
// interface but its own loopback; with NetworkProxy its guest carries
// connections to a proxy on the host, which decides about each of them.
const (
	NetworkNone  NetworkMode = "none"
	NetworkProxy NetworkMode = "proxy"
	NetworkOpen  NetworkMode = "open"
)

// DefaultNetwork is the mode of a Spec that names none.
const DefaultNetwork = NetworkProxy

// Network is a sandbox's network policy. NetworkProxy lets public addresses
// through, and of others those that Allow names; see [ParseAllow].
type Network struct {
	Mode  NetworkMode `json:"mode,omitempty"`
	Allow []string    `json:"allow,omitempty"`
}

func (s Spec) validateNetwork() error {
	switch s.Network.Mode {
	case "", NetworkNone, NetworkProxy, NetworkOpen:
	default:
		return &FieldError{"network.mode", fmt.Sprintf("unknown mode %q; choose proxy, none or open", s.Network.Mode)}
	}
	for i, text := range s.Network.Allow {
		if _, err := ParseAllow(text); err != nil {
			return &FieldError{fmt.Sprintf("network.allow[%d]", i), err.Error()}
		}
	}
	if mode := s.NetworkOrDefault(); len(s.Network.Allow) > 0 && mode != NetworkProxy {
		return &FieldError{"network.allow", fmt.Sprintf("is for the mode proxy, and this sandbox has %s", mode)}
	}
	if s.Wall == WallLocal && s.Network.Mode == NetworkProxy {
		return &FieldError{"network.mode", "the local wall has this machine's own network and nothing in between; choose another wall"}
	}
	return nil
}

// NetworkOrDefault returns the network mode, or the wall's default when none is
// named: NetworkOpen where the network is not ours to close, on the local wall and
// a remote one, else DefaultNetwork.
func (s Spec) NetworkOrDefault() NetworkMode {
	switch {
	case s.Network.Mode != "":
		return s.Network.Mode
	case !s.networkIsOurs():
		return NetworkOpen
	}
	return DefaultNetwork
}

// networkIsOurs says whether a wall's network is what a Spec says.
func (s Spec) networkIsOurs() bool { return s.Wall != WallLocal && s.Wall != WallRemote }

// Allow is one entry of Network.Allow: a host that may be reached although its
// address is not public. Exactly one of Name, Suffix and Prefix is set.
type Allow struct {
	Name   string       // lower case, without a dot at its end
	Suffix string       // ".example.com" for *.example.com
	Prefix netip.Prefix // of one address too
	Port   uint16       // 0 for every port
}

// ParseAllow reads HOST[:PORT], where HOST is a name, *.DOMAIN, an address or a
// network such as 10.1.0.0/16. An IPv6 one stands in brackets before a port.
func ParseAllow(text string) (Allow, error) {
	var a Allow
	host, port, found := text, "", false
	switch i := strings.LastIndexByte(text, ':'); {
	case strings.HasPrefix(text, "["):
		end := strings.IndexByte(text, ']')
		if end < 0 || (end+1 < len(text) && text[end+1] != ':') {
			return a, fmt.Errorf("%q is not [ADDRESS]:PORT", text)
		}
		if host = text[1:end]; end+1 < len(text) {
			port, found = text[end+2:], true
		}
	case i >= 0 && strings.Count(text, ":") == 1:
		host, port, found = text[:i], text[i+1:], true
	}
	if found {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return a, fmt.Errorf("%q has no port from 1 to 65535 after its colon", text)
		}
		a.Port = uint16(n)
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		if addr.IsUnspecified() {
			return a, fmt.Errorf("%q is the address of no machine and opens nothing; name the one that is meant, such as 127.0.0.1", host)
		}
		a.Prefix = netip.PrefixFrom(addr, addr.BitLen())
		return a, nil
	}
	if prefix, err := netip.ParsePrefix(host); err == nil {
		if prefix.Addr().Is4In6() {
			return a, fmt.Errorf("write the network %q as IPv4", host)
		}
		a.Prefix = prefix.Masked()
		return a, nil
	}
	if name, ok := strings.CutPrefix(host, "*."); ok {
		if name, err := HostName(name); err == nil {
			a.Suffix = "." + name
			return a, nil
		}
	} else if name, err := HostName(host); err == nil {
		a.Name = name
		return a, nil
	}
	return a, fmt.Errorf("%q is not HOST[:PORT]; a host is a name, *.DOMAIN, an address or a network", text)
}

// HostName returns a DNS name in the one form that names are compared in: lower
// case and without a dot at its end.
func HostName(name string) (string, error) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "" || len(name) > 253 {
		return "", fmt.Errorf("%q is not a host name", name)
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return "", fmt.Errorf("%q is not a host name", name)
		}
		for _, c := range []byte(label) {
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return "", fmt.Errorf("%q is not a host name", name)
			}
		}
	}
	return name, nil
}

// String returns the entry as ParseAllow reads it.
func (a Allow) String() string {
	host := a.Name
	switch {
	case a.Suffix != "":
		host = "*" + a.Suffix
	case a.Prefix.IsValid() && a.Prefix.IsSingleIP():
		host = a.Prefix.Addr().String()
	case a.Prefix.IsValid():
		host = a.Prefix.String()
	}
	if a.Port == 0 {
		return host
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(a.Port))
}
