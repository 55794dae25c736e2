package stack

import (
	"crypto/tls"
	"slices"
	"strings"
)

// Negotiated is what a client's connections and their peers agreed on. It is read
// from the connections themselves, and not from what a variant asks for.
type Negotiated struct {
	// Protocol is what the peer has answered in: h1, h2, h3, tcp-plain and
	// tcp-calls (docs/wire-tcp.md), with commas where they were several. Empty
	// where nothing has answered.
	Protocol string `json:"protocol,omitempty"`
	// Sessions are the kinds of TLS sessions; none where all was cleartext.
	Sessions []Session `json:"sessions,omitempty"`
}

// Session is one kind of TLS session, in the words of the IANA's registries.
type Session struct {
	Version     string `json:"version"` // as in TLS 1.3
	Cipher      string `json:"cipher"`
	Group       string `json:"group"`          // of the key exchange; empty: there was none
	ALPN        string `json:"alpn,omitempty"` // empty: no protocol was agreed on
	Resumed     bool   `json:"resumed,omitempty"`
	Connections int64  `json:"connections"`
}

// Spoke says in which protocol a peer has answered.
func (d *Dialer) Spoke(protocol string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch known := d.negotiated.Protocol; {
	case known == "":
		d.negotiated.Protocol = protocol
	case known != protocol && !slices.Contains(strings.Split(known, ","), protocol):
		d.negotiated.Protocol += "," + protocol
	}
}

// agreed counts a session with those of its kind. There are as many kinds as a
// client offers, which are few.
func (d *Dialer) agreed(state tls.ConnectionState) {
	kind := Session{
		Version: tls.VersionName(state.Version), Cipher: tls.CipherSuiteName(state.CipherSuite),
		ALPN: state.NegotiatedProtocol, Resumed: state.DidResume,
	}
	if state.CurveID != 0 {
		kind.Group = state.CurveID.String()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.negotiated.Sessions, func(known Session) bool {
		known.Connections = 0
		return known == kind
	})
	if i < 0 {
		i = len(d.negotiated.Sessions)
		d.negotiated.Sessions = append(d.negotiated.Sessions, kind)
	}
	d.negotiated.Sessions[i].Connections++
}

// Negotiated is what has been agreed on so far.
func (d *Dialer) Negotiated() Negotiated {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.negotiated
	n.Sessions = slices.Clone(n.Sessions)
	return n
}
