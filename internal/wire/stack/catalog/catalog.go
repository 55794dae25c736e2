// Package catalog lists all stacks, and checks variants. A new stack is a folder beside
// this one and a line here.
package catalog

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/connectstack"
	"wirelab.dev/internal/wire/stack/creditstack"
	"wirelab.dev/internal/wire/stack/fake"
	"wirelab.dev/internal/wire/stack/faststack"
	"wirelab.dev/internal/wire/stack/filestack"
	"wirelab.dev/internal/wire/stack/grpcstack"
	"wirelab.dev/internal/wire/stack/rest"
	"wirelab.dev/internal/wire/stack/restjson"
	"wirelab.dev/internal/wire/stack/tcp"
)

var fast = faststack.New(grpcstack.Stack)

// Stacks returns all stacks. A position selects a colour in reports: add new ones at the end.
func Stacks() []stack.Stack {
	return []stack.Stack{
		tcp.Stack{},
		rest.REST,
		grpcstack.Stack,
		rest.H1,
		rest.H2,
		rest.H3,
		connectstack.Connect,
		connectstack.GRPC3,
		restjson.Stack,
		fast,
		filestack.Stack,
		fake.Stack{},
		creditstack.Stack,
	}
}

// The options that every stack takes. The load engine and the worker implement them.
const (
	inFlight   = scenario.InFlightOption
	connection = scenario.ConnectionOption
	client     = scenario.ClientOption
	messages   = "messages"
	collector  = "gogc"
	smallLimit = "smallobject"
	control    = "cc"

	sized = "sized" // a value of client
	naive = scenario.NaiveClient

	fresh  = "fresh" // a value of messages
	pooled = "pooled"
)

// Common lists the options that every stack takes. The adapters never see them.
func Common() []scenario.Option {
	return []scenario.Option{
		{Key: inFlight, Parse: scenario.Count, Help: "N: the most calls in flight; further ones wait for a semaphore in the client; as in inflight=50"},
		{Key: connection, Parse: scenario.Parser(scenario.ParseConnection), Help: "MODE: how clients get connections: shared, per-worker, pool, pool:N, new, resumed, 0rtt; overrides the connection mode of the run"},
		{Key: client, Values: []string{sized, naive}, Default: sized, Help: "sized: avoids the machine's limits, for instance with sources spread over 127.0.0.0/8; naive: ignores them"},
		{Key: messages, Values: []string{fresh, pooled}, Default: fresh, Help: "pooled: a stream's receiver receives every message into the same one, if the workload allows it; codecs with vtprotobuf then reuse its memory"},
		{Key: collector, Parse: parseCollector, Help: "N: growth of the heap in percent until the garbage collector runs, at both ends, in place of 100; off: it runs only when memory gets short"},
		{Key: smallLimit, Values: []string{"32KiB", "16KiB", "64KiB"}, Default: "32KiB", Help: "the size up to which Go's allocator treats an object as small; sizes other than 32KiB need both ends built with a changed runtime, once: that needs a clone of wirelab, its Go toolchain and some minutes"},
		{Key: control, Parse: parseControl, Help: "NAME: congestion control of TCP at both ends, as in cubic, reno or bbr, in place of the machine's default; QUIC has its library's, which is reno"},
	}
}

// Find returns the stack with the name.
func Find(name string) (stack.Stack, error) {
	for _, s := range Stacks() {
		if s.Info().Name == name {
			return s, nil
		}
	}
	names := lists.Map(Stacks(), func(s stack.Stack) string { return s.Info().Name })
	return nil, fmt.Errorf("stack %q: %s", name, spelling.Suggest(name, names))
}

// Check returns an error if the variant is invalid.
func Check(v scenario.Variant) error {
	s, err := Find(v.Stack)
	if err != nil {
		return err
	}
	known := scenario.ReadOptions("variant", v, slices.Concat(s.Info().Options, commonOf(v.Stack)))
	if err := cmp.Or(known.Err(), CheckConnection(v, scenario.Connection{}), checkPeer(v)); err != nil {
		return err
	}
	// The stack's own checks of its values run here.
	server, err := s.NewServer(OwnOptions(v))
	if err != nil {
		return err
	}
	return cmp.Or(checkCongestion(v, s, server), server.Close())
}

func parseControl(text string) (any, error) {
	if !controlName.MatchString(text) {
		return nil, fmt.Errorf("want the kernel's name of a congestion control, as in cubic, reno or bbr")
	}
	return text, nil
}

// controlName has at most TCP_CA_NAME_MAX-1 bytes (linux/tcp.h).
var controlName = regexp.MustCompile(`^[a-z0-9_-]{1,15}$`)

// Congestion returns the congestion control of a variant's TCP connections; "": the default.
func Congestion(v scenario.Variant) string { return readCommon(v).Text(control) }

// checkCongestion refuses a congestion control for sockets that wirelab does not open.
func checkCongestion(v scenario.Variant, s stack.Stack, server stack.Server) error {
	if Congestion(v) == "" {
		return nil
	}
	refuse := func(what string) error {
		return fmt.Errorf("variant %s: %s=%s: %s; leave it out", v, control, Congestion(v), what)
	}
	if s.Info().QUIC {
		return refuse("it is for TCP, and QUIC's library offers no choice: it has " + conn.QUICCongestion)
	}
	if program, foreign := stack.ForeignClient(v); foreign {
		return refuse(program.Name + " opens its own sockets")
	}
	if external, ok := server.(stack.ExternalServer); ok {
		return refuse(external.Program() + " opens its own sockets")
	}
	return nil
}

// InFlight returns the variant's limit of calls in flight; 0 means none.
func InFlight(v scenario.Variant) (int, error) {
	o := readCommon(v)
	return scenario.Value[int](o, inFlight), o.Err()
}

// Naive reports whether the variant's client ignores the machine's limits, as part of its result.
func Naive(v scenario.Variant) bool { return readCommon(v).Text(client) == naive }

// PoolsMessages reports whether received messages are used again.
func PoolsMessages(v scenario.Variant) bool { return readCommon(v).Text(messages) == pooled }

// Collector returns the GOGC of a variant's workers; 0 means the default.
func Collector(v scenario.Variant) int { return scenario.Value[int](readCommon(v), collector) }

// CollectorOff is the Collector of workers that collect only when memory gets short.
const CollectorOff = -1

func parseCollector(text string) (any, error) {
	if text == "off" {
		return CollectorOff, nil
	}
	return scenario.Count(text)
}

// SmallObject returns the largest small object of Go in a variant's workers; 0: the default.
func SmallObject(v scenario.Variant) int {
	return map[string]int{"16KiB": 16 << 10, "64KiB": 64 << 10}[readCommon(v).Text(smallLimit)]
}

func readCommon(v scenario.Variant) *scenario.Options {
	common := commonOf(v.Stack)
	v.Options = slices.DeleteFunc(slices.Clone(v.Options), func(s scenario.Setting) bool { return !isOneOf(common, s) })
	return scenario.ReadOptions("variant", v, common)
}

func isOneOf(options []scenario.Option, s scenario.Setting) bool {
	return slices.ContainsFunc(options, func(o scenario.Option) bool { return o.Key == s.Key })
}

// ConnectionOf returns the mode in which a variant runs. asked is the user's mode, or zero.
func ConnectionOf(s stack.Stack, v scenario.Variant, asked scenario.Connection) scenario.Connection {
	if mode := scenario.Value[scenario.Connection](readCommon(v), connection); mode != (scenario.Connection{}) {
		return mode
	}
	return stack.ConnectionOf(s, v, asked)
}

// CheckConnection returns an error if a variant cannot run in the mode asked.
func CheckConnection(v scenario.Variant, asked scenario.Connection) error {
	s, err := Find(v.Stack)
	if err != nil {
		return err
	}
	if err := readCommon(v).Err(); err != nil {
		return err
	}
	mode := ConnectionOf(s, v, asked).Mode
	if asks, _ := v.Get(connection); asked.Mode == scenario.Auto || strings.HasPrefix(asks, string(scenario.Auto)) {
		return fmt.Errorf("variant %s: connection mode %q: want an option of the stack, as in grpc:pool=auto", v, scenario.Auto)
	}
	return stack.CheckLifecycle(s, v, conn.LifecycleOf(mode))
}

// CheckLoad returns an error if foreign programs cannot produce a part's load.
func CheckLoad(v scenario.Variant, p scenario.Part) error {
	if err := checkPeersPart(v, p); err != nil {
		return err
	}
	program, foreign := stack.ForeignClient(v)
	if !foreign {
		return nil
	}
	limit, wrong := InFlight(v)
	s, err := Find(v.Stack)
	if err := cmp.Or(wrong, err); err != nil {
		return err
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("variant %s: %s %s", v, program.Name, fmt.Sprintf(format, args...))
	}
	mode := ConnectionOf(s, v, p.Connection)
	switch {
	case p.Load.Model != scenario.Closed:
		return refuse("keeps a closed loop, and the load is %q: set `model: closed`", p.Load.Model)
	case p.Load.Duration <= 0:
		return refuse("calls for a duration, and the load counts requests: set `duration`, as in 2s, in place of `requests`")
	case limit > 0:
		return refuse("has no in-flight limit: leave out inflight=%d", limit)
	case p.Profile != "", len(p.Probes) > 0:
		return refuse("cannot be profiled or probed: leave out `profile` and `probes`")
	case mode.Mode.PerRequest():
		return refuse("keeps its connections, and the mode is %s: use shared, per-worker or a pool", mode)
	}
	oneEach := stack.ProtocolFor(s, v) == httpwire.HTTP1.String()
	for _, clients := range p.Clients {
		switch connections := mode.Want(clients); {
		case oneEach && connections != clients:
			return refuse("has one caller per connection over HTTP/1.1: %d clients need as many connections, not %d", clients, connections)
		case clients%connections != 0:
			return refuse("puts the same number of callers on each connection: %d clients cannot share %d connections evenly", clients, connections)
		}
	}
	return nil
}

// Secure returns the variant with TLS on. Check refuses the result if the stack has no TLS.
func Secure(v scenario.Variant) scenario.Variant {
	s, err := Find(v.Stack)
	if err != nil {
		return v
	}
	return stack.Secure(s, v)
}

// OwnOptions returns the variant without the options that the stack's adapter never sees.
func OwnOptions(v scenario.Variant) scenario.Variant {
	common := commonOf(v.Stack)
	v.Options = slices.DeleteFunc(slices.Clone(v.Options), func(s scenario.Setting) bool { return isOneOf(common, s) })
	return v
}

// leastQUIC is the smallest MTU that QUIC runs over: datagrams of 1200 bytes (RFC 9000, section 14)
// with the headers of UDP and IPv4.
const leastQUIC = 1200 + 8 + 20

// CheckNetwork returns an error if a variant's connections cannot cross a part's link.
func CheckNetwork(v scenario.Variant, n scenario.Network) error {
	s, err := Find(v.Stack)
	if err != nil {
		return err
	}
	if s.Info().QUIC && n.MTU != 0 && n.MTU < leastQUIC {
		return fmt.Errorf("variant %s: QUIC takes packets of %d bytes, and the link's mtu is %d: give it a greater one, or leave the variant out", v, leastQUIC, n.MTU)
	}
	return nil
}
