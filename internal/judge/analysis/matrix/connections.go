package matrix

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// A Survival counts answered requests and failures over all measured trials. It includes invalid
// trials, because failed requests may be the reason why they are invalid.
type Survival struct {
	Trials    int                 `json:"trials"`
	Requests  int64               `json:"requests"`
	Succeeded int64               `json:"succeeded"`
	Resent    int64               `json:"resent"`                                  // how often requests were sent again, which --retry allows
	Outside   int64               `json:"outside" csv:"outside"`                   // requests that no other figure counts: those of warm-ups, and after windows
	Share     *float64            `json:"share" csv:"share" jsonschema:"nullable"` // answered share of the requests; null if nothing was requested
	Failures  []record.ErrorCount `json:"failures"`                                // failures by class and code, most frequent first
}

// Unanswered counts the requests without an answer.
func (s Survival) Unanswered() int64 { return s.Requests - s.Succeeded }

func survivalOf(trials []Trial) Survival {
	s := Survival{Trials: len(trials)}
	for _, t := range trials {
		s.Requests += t.Requests
		s.Succeeded += max(0, t.Requests-t.Failed())
		s.Resent += t.Resent
		if t.Outside != nil {
			s.Outside += *t.Outside
		} else {
			s.Outside += t.Measurement.WarmUp.Requests
		}
		s.Failures = record.PlusErrors(s.Failures, t.Errors)
		slices.SortStableFunc(s.Failures, func(a, b record.ErrorCount) int { return cmp.Compare(b.Count, a.Count) })
	}
	if s.Requests > 0 {
		s.Share = new(float64(s.Succeeded) / float64(s.Requests))
	}
	return s
}

// Connections holds the wanted and the opened connections of all measured trials.
type Connections struct {
	PerRequest      bool       `json:"per_request"`                      // every request asks for a connection of its own
	Secure          bool       `json:"secure"`                           // connections use TLS or QUIC; for older records, true if there are handshakes or tls=on
	Want            int        `json:"want"`                             // number of connections wanted at the same time
	During          int64      `json:"during" csv:"connections_during"`  // number of connections opened in the window
	Failed          int64      `json:"failed" csv:"connections_failed"`  // failed attempts to open a connection
	Full            int64      `json:"full" csv:"handshakes_full"`       // full handshakes, with a certificate
	Resumed         int64      `json:"resumed" csv:"handshakes_resumed"` // resumed handshakes
	Early           int64      `json:"early" csv:"handshakes_early"`     // resumed handshakes whose early data the server accepted
	EarlyRefused    int64      `json:"early_refused" csv:"handshakes_early_refused"`
	HandshakeFailed int64      `json:"handshake_failed" csv:"handshakes_failed"`
	Achieved        *float64   `json:"achieved" csv:"connections_achieved_share" jsonschema:"nullable"` // share of connections with the wanted handshake; null in modes that keep connections
	Differs         bool       `json:"differs"`                                                         // the achieved connections differ from the wanted ones
	Connect         *Times     `json:"connect_us" csv:"connect_*_us"`                                   // time to open a TCP connection
	Handshake       *Times     `json:"handshake_us" csv:"handshake_*_us" label:""`                      // time of a TLS or QUIC handshake
	Negotiated      Negotiated `json:"negotiated"`
	FirstByte       *Times     `json:"first_byte_us" csv:"first_byte_*_us"` // time from the start of a call on its own connection to the answer's first byte
}

// Negotiated holds the protocols and algorithms that a cell's connections agreed on.
type Negotiated struct {
	Recorded         bool      `json:"recorded"`          // false for older records, which lack this information
	Protocol         string    `json:"protocol"`          // protocol of the answers: h1, h2, h3, tcp-plain, tcp-calls
	Sessions         []Session `json:"sessions"`          // kinds of TLS sessions; none in cleartext
	ClientCongestion string    `json:"client_congestion"` // congestion control of the client's sockets or of QUIC; several are separated by commas; empty if unknown
	ServerCongestion string    `json:"server_congestion"` // congestion control of the server's sockets or of QUIC; several are separated by commas; empty if unknown
}

// A Session is one kind of TLS session, with IANA's names.
type Session struct {
	Version string `json:"version"`
	Cipher  string `json:"cipher"`
	Group   string `json:"group"` // group of the key exchange
	ALPN    string `json:"alpn"`
	Full    int64  `json:"full"`    // full handshakes since the clients started
	Resumed int64  `json:"resumed"` // resumed handshakes since the clients started
}

// Times holds the mean and two percentiles of times, in microseconds; null if nothing was timed.
type Times struct {
	Mean Figure `json:"mean"`
	P50  Figure `json:"p50" csv:"p50" label:"P50"`
	P99  Figure `json:"p99" csv:"p99" label:"P99"`
}

// minAchieved is a little below 1: each client's first connection has no session to resume.
const minAchieved = 0.99

func connectionsOf(cell record.Cell, from usable) Connections {
	trials := from.all
	c := Connections{
		Want:      trials[0].Connections.Want,
		Connect:   timesOf(from.times, func(t Trial) times { return t.connect }),
		Handshake: timesOf(from.times, func(t Trial) times { return t.handshake }),
		FirstByte: timesOf(from.times, func(t Trial) times { return t.firstByte }),
	}
	for _, t := range trials {
		made := t.Connections
		c.During += made.During
		c.Failed += made.Failed
		c.Full += made.Full
		c.Resumed += made.Resumed
		c.Early += made.Early
		c.EarlyRefused += made.EarlyRefused
		c.HandshakeFailed += made.HandshakeFailed
	}
	c.Negotiated = negotiated(trials)
	c.Secure = len(c.Negotiated.Sessions) > 0
	if !c.Negotiated.Recorded { // an older record
		v, err := scenario.ParseVariant(cell.Variant)
		tls, _ := v.Get("tls")
		c.Secure = c.Full+c.Resumed > 0 || err == nil && tls == "on"
	}
	mode, err := scenario.ParseConnection(cell.Connection)
	if err != nil {
		return c // a mode of another version, unknown to this one
	}
	if c.PerRequest = mode.Mode.PerRequest(); c.PerRequest {
		c.Achieved = c.achieved(mode.Mode, trials)
		c.Differs = c.Achieved != nil && *c.Achieved < minAchieved
		return c
	}
	c.Differs = slices.ContainsFunc(trials, func(t Trial) bool { return !t.Addresses.Changed() && !hasWantedConnections(mode, t.Connections) })
	return c
}

// achieved returns the share of connections with the handshake that the mode asks for. It leaves
// out failed requests. At each edge of the window, it allows one connection per client for a
// request outside of the window.
func (c *Connections) achieved(mode scenario.ConnectionMode, trials []Trial) *float64 {
	asWanted, begun := c.During, c.During
	if c.Full+c.Resumed > 0 {
		begun = c.Full + c.Resumed
		asWanted = map[scenario.ConnectionMode]int64{scenario.New: c.Full, scenario.Resumed: c.Resumed, scenario.Early: c.Early}[mode]
	}
	least := int64(0)
	for _, t := range trials {
		least += max(0, t.Requests-t.Failed()-2*int64(t.Cell.Clients))
	}
	of := max(begun, least)
	if of == 0 {
		return nil
	}
	return new(float64(asWanted) / float64(of))
}

// hasWantedConnections reports whether a trial opened the wanted number of connections. A pool may
// open fewer, and a pool without a fixed size may open any number.
func hasWantedConnections(mode scenario.Connection, made record.Connections) bool {
	if mode.Mode == scenario.Auto {
		return made.Opened > 0
	}
	return made.During == 0 && (made.Opened == int64(made.Want) || mode.Mode == scenario.Pool && made.Opened < int64(made.Want))
}

// negotiated adds up the negotiation results of all trials. It returns no results if a trial lacks
// them.
func negotiated(trials []Trial) Negotiated {
	var all record.Negotiated
	for _, t := range trials {
		if t.Negotiated == nil {
			return Negotiated{}
		}
		all = all.Plus(*t.Negotiated)
	}
	sum := Negotiated{Recorded: true, Protocol: all.Protocol, ClientCongestion: all.ClientCongestion, ServerCongestion: all.ServerCongestion}
	for _, s := range all.Sessions {
		kind := Session{Version: s.Version, Cipher: s.Cipher, Group: s.Group, ALPN: s.ALPN}
		found := lists.FindOrAdd(&sum.Sessions, kind, func(known Session) bool {
			known.Full, known.Resumed = 0, 0
			return known == kind
		})
		if s.Resumed {
			found.Resumed += s.Connections
		} else {
			found.Full += s.Connections
		}
	}
	return sum
}

// timesOf returns the mean and percentiles of some times, or nil if nothing was timed.
func timesOf(trials []Trial, of func(Trial) times) *Times {
	timed := Filter(trials, func(t Trial) bool { return of(t).count > 0 })
	if len(timed) == 0 {
		return nil
	}
	all := poolTimes(timed, of).Latencies()
	return &Times{Mean: all.Mean, P50: all.P50, P99: all.P99}
}
