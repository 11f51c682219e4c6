package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// SOCKS5 as of RFC 1928, without authentication: whoever can reach the guest's
// listener is inside the sandbox.
const (
	socksVersion = 5

	socksNoAuth     = 0x00
	socksNoneServed = 0xff

	socksConnect = 1
	socksBind    = 2
	socksUDP     = 3

	socksIPv4 = 1
	socksName = 3
	socksIPv6 = 4
)

// The codes of an answer.
const (
	socksOK          = 0
	socksGeneral     = 1
	socksRuleset     = 2
	socksNetwork     = 3
	socksUnreachable = 4
	socksRefused     = 5
	socksTimeout     = 6 // "TTL expired" is the nearest there is
	socksCommand     = 7
	socksAddress     = 8
)

// socks serves a client that speaks SOCKS5.
func (s *service) socks(c *client) {
	_ = c.SetWriteDeadline(time.Now().Add(headerTime))
	command, host, port, err := readSocks(c)
	if err != nil {
		return
	}
	name := map[byte]string{socksBind: "BIND", socksUDP: "UDP ASSOCIATE"}[command]
	switch {
	case host == "":
		_ = answerSocks(c, socksAddress)
		return
	case command != socksConnect:
		if name == "" {
			name = "this command"
		}
		_ = s.refuse(Decision{At: time.Now(), Protocol: SOCKS5, Host: clip(host), Port: port}, name+" is not served: connections out by TCP alone")
		_ = answerSocks(c, socksCommand)
		return
	case port == 0:
		_ = answerSocks(c, socksGeneral)
		return
	}
	u, err := s.connect(s.life, SOCKS5, host, port)
	if err != nil {
		_ = answerSocks(c, socksCode(err))
		return
	}
	_ = c.SetDeadline(time.Time{})
	if err := answerSocks(c, socksOK); err != nil {
		u.Close()
		return
	}
	tunnel(c, u)
}

// readSocks greets a client and reads its request. host is "" for an address of
// an unknown type.
func readSocks(c io.ReadWriter) (command byte, host string, port uint16, err error) {
	var b [256]byte
	if _, err = io.ReadFull(c, b[:2]); err != nil {
		return
	}
	methods := b[:b[1]]
	if _, err = io.ReadFull(c, methods); err != nil {
		return
	}
	method := byte(socksNoneServed)
	if slices.Contains(methods, socksNoAuth) {
		method = socksNoAuth
	}
	if _, err = c.Write([]byte{socksVersion, method}); err != nil {
		return
	}
	if method != socksNoAuth {
		return 0, "", 0, errors.New("the client wants to authenticate")
	}
	if _, err = io.ReadFull(c, b[:4]); err != nil {
		return
	}
	if b[0] != socksVersion {
		return 0, "", 0, errors.New("not SOCKS5")
	}
	command = b[1]
	size := 0
	switch kind := b[3]; kind {
	case socksIPv4:
		size = 4
	case socksIPv6:
		size = 16
	case socksName:
		if _, err = io.ReadFull(c, b[:1]); err != nil {
			return
		}
		size = int(b[0])
		if _, err = io.ReadFull(c, b[:size]); err != nil {
			return
		}
		host = string(b[:size])
		size = 0
	default:
		return command, "", 0, nil
	}
	if size > 0 {
		if _, err = io.ReadFull(c, b[:size]); err != nil {
			return
		}
		addr, _ := netip.AddrFromSlice(b[:size])
		host = addr.String()
	}
	if _, err = io.ReadFull(c, b[:2]); err != nil {
		return
	}
	return command, host, binary.BigEndian.Uint16(b[:2]), nil
}

// answerSocks sends an answer. The bound address in it is nobody's concern.
func answerSocks(w io.Writer, code byte) error {
	_, err := w.Write([]byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0})
	return err
}

func socksCode(err error) byte {
	var no *refusal
	switch {
	case errors.As(err, &no):
		return socksRuleset
	case errors.Is(err, errResolve), errors.Is(err, syscall.EHOSTUNREACH):
		return socksUnreachable
	case errors.Is(err, syscall.ENETUNREACH):
		return socksNetwork
	case errors.Is(err, syscall.ECONNREFUSED):
		return socksRefused
	case isTimeout(err), errors.Is(err, context.DeadlineExceeded):
		return socksTimeout
	}
	return socksGeneral
}
