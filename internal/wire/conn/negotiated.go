package conn

import (
	"crypto/tls"
	"slices"
	"strings"

	"wirelab.dev/internal/data/record"
)

// QUICCongestion is the congestion control of quic-go, NewReno (RFC 9002, section 7). The
// library offers no other and does not report it; a test checks that it still is.
const QUICCongestion = "reno"

// UsedProtocol records the protocol in which a peer has answered.
func (d *Dialer) UsedProtocol(protocol string) {
	d.mu.Lock()
	addWord(&d.negotiated.Protocol, protocol)
	d.mu.Unlock()
	if protocol == "h3" {
		d.usedCongestion(QUICCongestion)
	}
}

// usedCongestion records the congestion control of a connection.
func (d *Dialer) usedCongestion(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	addWord(&d.negotiated.ClientCongestion, name)
}

// addWord adds a word to a list that is separated by commas, unless the list has it.
func addWord(words *string, word string) {
	switch {
	case *words == "":
		*words = word
	case *words != word && word != "" && !slices.Contains(strings.Split(*words, ","), word):
		*words += "," + word
	}
}

// countSession counts a session under its kind. There are only a few kinds, because the
// client's offer bounds them.
func (d *Dialer) countSession(state tls.ConnectionState) {
	kind := record.Session{
		Version: tls.VersionName(state.Version), Cipher: tls.CipherSuiteName(state.CipherSuite),
		ALPN: state.NegotiatedProtocol, Resumed: state.DidResume,
	}
	if state.CurveID != 0 {
		kind.Group = state.CurveID.String()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.negotiated.Sessions, func(known record.Session) bool {
		known.Connections = 0
		return known == kind
	})
	if i < 0 {
		i = len(d.negotiated.Sessions)
		d.negotiated.Sessions = append(d.negotiated.Sessions, kind)
	}
	d.negotiated.Sessions[i].Connections++
}

// Negotiated returns what the connections have negotiated so far, as they report it; the
// variant is not asked.
func (d *Dialer) Negotiated() record.Negotiated {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.negotiated
	n.Sessions = slices.Clone(n.Sessions)
	return n
}
