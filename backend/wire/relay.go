package wire

import (
	"io"
	"strings"
	"time"

	"github.com/hashicorp/yamux"
)

// RelayAddr is where the guest of a sandbox with a relay listens inside it, for
// clients that speak HTTP or SOCKS5.
const RelayAddr = "127.0.0.1:3128"

// ProtocolRelay is what the connection of a PathRelay request is upgraded to: a
// yamux session, in which the guest opens a stream for each connection that was
// made to its relay. The bytes on a stream are the client's own; the guest reads
// none of them. Closing a stream closes one direction.
const ProtocolRelay = "glovebox-relay"

// ProxyVariables are the variables by which programs find the relay, in both of
// the spellings that they look for. What is inside the sandbox is reached without.
func ProxyVariables(url string) []string {
	var env []string
	for _, v := range []struct{ name, value string }{
		{"HTTP_PROXY", url}, {"HTTPS_PROXY", url}, {"ALL_PROXY", url}, {"NO_PROXY", "localhost,127.0.0.1,::1"},
	} {
		env = append(env, v.name+"="+v.value, strings.ToLower(v.name)+"="+v.value)
	}
	return env
}

// MaxRelayed is how many connections a guest carries at once.
const MaxRelayed = 512

// ConnectConfig returns how both ends run the session of connections to a guest
// over stdio. There are no signs of life: a paused container is not a dead one,
// and each request has its own deadline.
func ConnectConfig() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.StreamOpenTimeout = 0
	c.MaxStreamWindowSize = 1 << 20
	c.LogOutput = io.Discard
	return c
}

// RelayConfig returns how both ends run the session. Nothing is sent to keep it
// alive, and a peer that does not read is waited for: a paused sandbox is not a
// dead one. The connection below tells when the peer is gone.
func RelayConfig() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.ConnectionWriteTimeout = 24 * time.Hour
	c.StreamOpenTimeout = 0
	c.StreamCloseTimeout = 0 // a slow reader may take what is on its way
	c.LogOutput = io.Discard
	return c
}
