package egress

import (
	"net/netip"
	"testing"

	"github.com/glovebox-dev/glovebox/backend/sandbox"
)

func TestKindOf(t *testing.T) {
	for kind, addrs := range map[string][]string{
		"": {"1.1.1.1", "8.8.8.8", "172.15.255.255", "172.32.0.0", "192.167.1.1", "100.63.255.255", "100.128.0.0",
			"169.253.1.1", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "2003::1"},
		kindLoopback:    {"127.0.0.1", "127.255.255.254", "::1"},
		kindPrivate:     {"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fd00::1", "fc00::1", "fec0::1"},
		kindShared:      {"100.64.0.1", "100.127.255.255"},
		kindLinkLocal:   {"169.254.1.1", "fe80::1", "fe80::1%eth0", "2606:4700::1%eth0"},
		kindMetadata:    {"169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "fd00:ec2::254"},
		kindMulticast:   {"224.0.0.1", "239.255.255.250", "ff02::1"},
		kindUnspecified: {"0.0.0.0", "::"},
		kindReserved:    {"0.1.2.3", "192.0.0.1", "198.18.0.1", "240.0.0.1", "255.255.255.255", "2001:1::1", "100::1", "4000::1"},
		kindExample:     {"192.0.2.1", "198.51.100.1", "203.0.113.80", "2001:db8::1", "3fff::1"},
		kindEmbedded: {"::ffff:10.0.0.1", "::ffff:8.8.8.8", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::a00:1", "64:ff9b::808:808",
			"64:ff9b:1::1", "2002:a00:1::", "2001:0:a00:1::"},
	} {
		for _, a := range addrs {
			if got := kindOf(netip.MustParseAddr(a)); got != kind {
				t.Errorf("kindOf(%s) = %q, want %q", a, got, kind)
			}
		}
	}
}

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name, allow, host, addr string
		port                    uint16
		want                    bool
	}{
		{"public", "", "example.com", "93.184.216.34", 443, true},
		{"for examples", "", "example.com", "203.0.113.80", 443, true},
		{"a public name of a private address", "", "db.example.com", "10.0.0.5", 5432, false},
		{"allowed by name and port", "db.corp:5432", "db.corp", "10.0.0.5", 5432, true},
		{"another port", "db.corp:5432", "db.corp", "10.0.0.5", 22, false},
		{"any port", "db.corp", "db.corp", "10.0.0.5", 22, true},
		{"another name with the address", "db.corp", "evil.example", "10.0.0.5", 5432, false},
		{"a name that only ends so", "*.corp", "evilcorp", "10.0.0.5", 80, false},
		{"below the domain", "*.corp", "a.b.corp", "10.0.0.5", 80, true},
		{"the domain itself is not below it", "*.corp", "corp", "10.0.0.5", 80, false},
		{"a domain does not open this machine", "*.corp", "a.corp", "127.0.0.1", 80, false},
		{"a name does", "localhost:5432", "localhost", "127.0.0.1", 5432, true},
		{"a name does not open metadata", "meta.corp", "meta.corp", "169.254.169.254", 80, false},
		{"its address does", "169.254.169.254:80", "169.254.169.254", "169.254.169.254", 80, true},
		{"a network", "10.0.0.0/8:443", "any.example", "10.200.0.1", 443, true},
		{"outside the network", "10.0.0.0/8", "any.example", "192.168.0.1", 443, false},
		{"a mapped form is not in an IPv4 network", "10.0.0.0/8", "::ffff:10.0.0.1", "::ffff:10.0.0.1", 443, false},
		{"the unspecified address is never open", "0.0.0.0/0", "0.0.0.0", "0.0.0.0", 80, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := sandbox.Network{Mode: sandbox.NetworkProxy}
			if test.allow != "" {
				n.Allow = []string{test.allow}
			}
			p, err := newPolicy(n)
			if err != nil {
				t.Fatal(err)
			}
			a := netip.MustParseAddr(test.addr)
			got, reason := p.judge(test.host, a, test.port, kindOf(a))
			if got != test.want || reason == "" {
				t.Errorf("judge() = %v, %q; want %v and a reason", got, reason, test.want)
			}
		})
	}
}

func TestSplitTarget(t *testing.T) {
	for target, want := range map[string]struct {
		host string
		port uint16
	}{
		"a:1": {"a", 1}, "a": {"a", 80}, "[::1]:8080": {"::1", 8080}, "[::1]": {"::1", 80},
		"a:": {}, "a:0": {}, "a:65536": {}, ":80": {}, "": {},
	} {
		host, port, err := splitTarget(target, 80)
		if (err != nil) != (want.host == "") || err == nil && (host != want.host || port != want.port) {
			t.Errorf("splitTarget(%q) = %q, %d, %v; want %v", target, host, port, err, want)
		}
	}
	if _, _, err := splitTarget("a", 0); err == nil {
		t.Error("a port was made up")
	}
}
