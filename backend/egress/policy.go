package egress

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

// policy is a sandbox's network policy, ready to judge.
type policy struct {
	allow []sandbox.Allow
}

func newPolicy(n sandbox.Network) (policy, error) {
	var p policy
	for _, text := range n.Allow {
		a, err := sandbox.ParseAllow(text)
		if err != nil {
			return p, fmt.Errorf("network policy: %w", err)
		}
		p.allow = append(p.allow, a)
	}
	return p, nil
}

// judge decides about one address that name (or an address as text) stands for.
// kind says why it is not public, "" when it is.
func (p policy) judge(name string, addr netip.Addr, port uint16, kind string) (ok bool, reason string) {
	switch kind {
	case "":
		return true, "a public address"
	case kindExample:
		return true, kindExample
	}
	for _, a := range p.allow {
		if matches(a, name, addr, port) && opens(a, kind) {
			return true, "allowed by " + a.String()
		}
	}
	return false, kind
}

func matches(a sandbox.Allow, name string, addr netip.Addr, port uint16) bool {
	switch {
	case a.Port != 0 && a.Port != port:
		return false
	case a.Prefix.IsValid():
		return a.Prefix.Contains(addr)
	case a.Suffix != "":
		return strings.HasSuffix(name, a.Suffix)
	}
	return a.Name == name
}

// opens says whether an entry reaches as far as an address of this kind. Whoever
// answers for a name chooses its addresses, so a name alone opens no metadata
// service, and a whole domain not this machine either.
func opens(a sandbox.Allow, kind string) bool {
	switch kind {
	case kindUnspecified:
		return false // where it leads depends on the machine
	case kindPrivate, kindShared:
		return true
	case kindLoopback, kindMachine:
		return a.Suffix == ""
	}
	return a.Prefix.IsValid()
}

// The kinds of addresses that are not public.
const (
	kindUnspecified = "the address of no machine"
	kindLoopback    = "this machine's loopback"
	kindMachine     = "an address of this machine"
	kindPrivate     = "a private address"
	kindShared      = "a provider's internal address (CGNAT)"
	kindLinkLocal   = "a link-local address"
	kindMetadata    = "a cloud's metadata service"
	kindMulticast   = "a multicast address"
	kindReserved    = "a reserved address"
	kindExample     = "an address for examples" // private to nobody; where a network uses them, they stand for the internet
	kindEmbedded    = "an address that wraps another one"
)

var special = []struct {
	prefix netip.Prefix
	kind   string
}{
	// The first that holds an address counts.
	{netip.MustParsePrefix("169.254.169.254/32"), kindMetadata},
	{netip.MustParsePrefix("169.254.170.2/32"), kindMetadata},
	{netip.MustParsePrefix("100.100.100.200/32"), kindMetadata},
	{netip.MustParsePrefix("168.63.129.16/32"), kindMetadata}, // public by its number, and each machine's own host
	{netip.MustParsePrefix("192.0.0.192/32"), kindMetadata},
	{netip.MustParsePrefix("fd00:ec2::/32"), kindMetadata},
	{netip.MustParsePrefix("0.0.0.0/32"), kindUnspecified},
	{netip.MustParsePrefix("::/128"), kindUnspecified},
	{netip.MustParsePrefix("0.0.0.0/8"), kindReserved},
	{netip.MustParsePrefix("127.0.0.0/8"), kindLoopback},
	{netip.MustParsePrefix("::1/128"), kindLoopback},
	{netip.MustParsePrefix("10.0.0.0/8"), kindPrivate},
	{netip.MustParsePrefix("172.16.0.0/12"), kindPrivate},
	{netip.MustParsePrefix("192.168.0.0/16"), kindPrivate},
	{netip.MustParsePrefix("fc00::/7"), kindPrivate},
	{netip.MustParsePrefix("fec0::/10"), kindPrivate},
	{netip.MustParsePrefix("100.64.0.0/10"), kindShared},
	{netip.MustParsePrefix("169.254.0.0/16"), kindLinkLocal},
	{netip.MustParsePrefix("fe80::/10"), kindLinkLocal},
	{netip.MustParsePrefix("224.0.0.0/4"), kindMulticast},
	{netip.MustParsePrefix("ff00::/8"), kindMulticast},
	{netip.MustParsePrefix("192.0.0.0/24"), kindReserved},
	{netip.MustParsePrefix("192.0.2.0/24"), kindExample},
	{netip.MustParsePrefix("192.88.99.0/24"), kindReserved},
	{netip.MustParsePrefix("198.18.0.0/15"), kindReserved},
	{netip.MustParsePrefix("198.51.100.0/24"), kindExample},
	{netip.MustParsePrefix("203.0.113.0/24"), kindExample},
	{netip.MustParsePrefix("240.0.0.0/4"), kindReserved},
	{netip.MustParsePrefix("::/96"), kindEmbedded},         // IPv4-compatible
	{netip.MustParsePrefix("::ffff:0:0/96"), kindEmbedded}, // IPv4-mapped
	{netip.MustParsePrefix("64:ff9b::/96"), kindEmbedded},  // NAT64
	{netip.MustParsePrefix("64:ff9b:1::/48"), kindEmbedded},
	{netip.MustParsePrefix("2002::/16"), kindEmbedded}, // 6to4
	{netip.MustParsePrefix("2001::/32"), kindEmbedded}, // Teredo
	{netip.MustParsePrefix("2001::/23"), kindReserved},
	{netip.MustParsePrefix("2001:db8::/32"), kindExample},
	{netip.MustParsePrefix("3fff::/20"), kindExample},
}

var global6 = netip.MustParsePrefix("2000::/3")

// kindOf says why an address is not public, or "".
func kindOf(addr netip.Addr) string {
	if addr.Zone() != "" {
		return kindLinkLocal
	}
	for _, s := range special {
		if s.prefix.Contains(addr) {
			return s.kind
		}
	}
	if addr.Is6() && !global6.Contains(addr) {
		return kindReserved
	}
	return ""
}

// machine knows the addresses of this machine. They change, so they are read
// again after a while.
type machine struct {
	list func() []netip.Addr

	mu   sync.Mutex
	at   time.Time
	have map[netip.Addr]bool
}

const machineFresh = 10 * time.Second

func (m *machine) has(a netip.Addr) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.have == nil || time.Since(m.at) > machineFresh {
		list := m.list
		if list == nil {
			list = interfaceAddrs
		}
		m.have, m.at = make(map[netip.Addr]bool), time.Now()
		for _, a := range list() {
			m.have[a.Unmap().WithZone("")] = true
		}
	}
	return m.have[a]
}

func interfaceAddrs() []netip.Addr {
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var addrs []netip.Addr
	for _, n := range nets {
		if p, err := netip.ParsePrefix(n.String()); err == nil {
			addrs = append(addrs, p.Addr())
		}
	}
	return addrs
}
