// Package catalog lists all stacks, and checks variants. To add a stack, add a folder beside this
// one and a line in this file.
package catalog

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/pattern"
	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/sockopt"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/connectstack"
	"wirelab.dev/internal/wire/stack/creditstack"
	"wirelab.dev/internal/wire/stack/fake"
	"wirelab.dev/internal/wire/stack/faststack"
	"wirelab.dev/internal/wire/stack/filestack"
	"wirelab.dev/internal/wire/stack/grpcstack"
	"wirelab.dev/internal/wire/stack/rest"
	"wirelab.dev/internal/wire/stack/restjson"
	"wirelab.dev/internal/wire/stack/rivalstack"
	"wirelab.dev/internal/wire/stack/tcp"
)

var fastStack = faststack.New(grpcstack.Stack)

// Stacks returns all stacks. Add new stacks at the end, because a stack's index selects its colour
// in reports.
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
		fastStack,
		filestack.Stack,
		fake.Stack{},
		creditstack.Stack,
		rivalstack.Kitex,
		rivalstack.DRPC,
		rivalstack.TTRPC,
		rivalstack.RPCX,
	}
}

// These options exist for every stack. The load engine and the worker implement them.
const (
	inFlightKey   = scenario.InFlightOption
	connectionKey = scenario.ConnectionOption
	clientKey     = scenario.ClientOption
	messagesKey   = "messages"
	collectorKey  = "gogc"
	threadsKey    = "gomaxprocs"
	memoryKey     = "gomemlimit"
	busyServerKey = scenario.BusyServerOption
	busyClientKey = scenario.BusyClientOption
	smallLimitKey = "smallobject"
	congestionKey = "cc"
	nagleKey      = "nagle"
	cpusKey       = "cpus"

	sizedClient = "sized" // a value of the option client
	naiveClient = scenario.NaiveClient

	freshMessages  = "fresh" // a value of the option messages
	pooledMessages = "pooled"
)

// Common lists the options that every stack has. The stack's own code never gets these options.
func Common() []scenario.Option {
	return []scenario.Option{
		{Key: inFlightKey, Parse: scenario.Count, Help: "N: the limit of calls in flight; further calls wait in the client; as in inflight=50"},
		{Key: connectionKey, Parse: scenario.Parser(scenario.ParseConnection), Help: "MODE: how clients get connections: shared, per-worker, pool, pool:N, new, resumed, 0rtt; overrides the connection mode of the run"},
		{Key: clientKey, Values: []string{sizedClient, naiveClient}, Default: sizedClient, Help: "sized: avoids the machine's limits, for instance with sources spread over 127.0.0.0/8; naive: ignores them"},
		{Key: messagesKey, Values: []string{freshMessages, pooledMessages}, Default: freshMessages, Help: "pooled: a stream's receiver reuses one message for all, if the workload allows it; vtprotobuf codecs then reuse the message's memory"},
		{Key: collectorKey, Parse: parseCollector, Help: "N: at both ends the garbage collector runs when the heap has grown by N percent, in place of 100; off: only when memory gets short"},
		{Key: threadsKey, Parse: scenario.Count, Help: "N: at both ends at most N threads run Go code at once, in place of one per CPU of the end; a client of an open loop gets one more"},
		{Key: memoryKey, Parse: scenario.BytesUpTo(math.MaxInt32), Help: "SIZE: the memory limit of both ends' Go runtime, as in 64MiB, in place of 800 MiB"},
		{Key: busyServerKey, Parse: scenario.PositiveTime, Help: "TIME: each handler computes for this long first, to see how much time at the server matters, as in busy-server=20us"},
		{Key: busyClientKey, Parse: scenario.PositiveTime, Help: "TIME: the client computes for this long in each call, before it sends the request"},
		{Key: smallLimitKey, Values: []string{"32KiB", "16KiB", "64KiB"}, Default: "32KiB", Help: "the size up to which Go's allocator treats an object as small; for sizes other than 32KiB wirelab builds both ends once with a changed runtime, which needs a clone of wirelab, its Go toolchain and some minutes"},
		{Key: congestionKey, Parse: parseControl, Help: "NAME: congestion control of TCP at both ends, as in cubic, reno or bbr, in place of the machine's default; QUIC always uses its library's reno"},
		{Key: nagleKey, Values: []string{"off", "on"}, Default: "off", Help: "on: Nagle's algorithm at both ends (TCP_NODELAY off): a socket holds small segments back until all earlier data is acknowledged"},
		{Key: cpusKey, Values: []string{OwnCPUs, SharedCPUs, OneCPU}, Default: OwnCPUs, Help: "own: each end has CPUs of its own; shared: both ends may use all CPUs of the trial, as programs do that nobody pins; one: each end has one CPU"},
	}
}

// Find returns the stack with the name.
func Find(name string) (stack.Stack, error) { return FindIn(Stacks(), name) }

// FindIn returns the stack with the name from a list.
func FindIn(all []stack.Stack, name string) (stack.Stack, error) {
	for _, s := range all {
		if s.Info().Name == name {
			return s, nil
		}
	}
	names := lists.Map(all, func(s stack.Stack) string { return s.Info().Name })
	return nil, fmt.Errorf("stack %q: %s", name, spelling.Suggest(name, names))
}

// Check returns an error if the variant is invalid.
func Check(v scenario.Variant) error {
	s, err := Find(v.Stack)
	if err != nil {
		return err
	}
	known := scenario.ReadOptions("variant", v, slices.Concat(s.Info().Options, commonOptions(v.Stack)))
	if err := cmp.Or(known.Err(), CheckConnection(v, scenario.Connection{}), checkPeer(v)); err != nil {
		return err
	}
	// The stack checks its own options here.
	server, err := s.NewServer(OwnOptions(v))
	if err != nil {
		return err
	}
	return cmp.Or(checkSocket(v, s, server), server.Close())
}

func parseControl(text string) (any, error) {
	if !controlName().MatchString(text) {
		return nil, fmt.Errorf("want the kernel's name for a congestion control, as in cubic, reno or bbr")
	}
	return text, nil
}

// controlName allows at most TCP_CA_NAME_MAX-1 bytes (linux/tcp.h).
var controlName = pattern.Lazy(`^[a-z0-9_-]{1,15}$`)

// Congestion returns the congestion control of a variant's TCP connections, or "" for the default.
func Congestion(v scenario.Variant) string { return Socket(v).Congestion }

// The values of the option cpus.
const (
	OwnCPUs    = "own"
	SharedCPUs = "shared"
	OneCPU     = "one"
)

// CPUs returns which CPUs the ends of a variant may use.
func CPUs(v scenario.Variant) string { return cmp.Or(readCommon(v).Text(cpusKey), OwnCPUs) }

// SharesCPUs reports whether both ends of a cell may use all CPUs of the trial.
func SharesCPUs(c scenario.Cell) bool { return c.Unpinned || CPUs(c.Variant) == SharedCPUs }

// Socket returns the options of a variant's TCP connections.
func Socket(v scenario.Variant) sockopt.Options {
	o := readCommon(v)
	return sockopt.Options{Congestion: o.Text(congestionKey), Nagle: o.Text(nagleKey) == "on"}
}

// checkSocket refuses options of sockets that wirelab does not open itself.
func checkSocket(v scenario.Variant, s stack.Stack, server stack.Server) error {
	asked := Socket(v)
	if asked == (sockopt.Options{}) {
		return nil
	}
	option := congestionKey + "=" + asked.Congestion
	if asked.Nagle {
		option = nagleKey + "=on"
	}
	refuse := func(what string) error {
		return fmt.Errorf("variant %s: %s: %s; leave the option out", v, option, what)
	}
	_, carried := s.(stack.PeerCarried)
	switch {
	case s.Info().QUIC && asked.Nagle:
		return refuse("QUIC has no such algorithm")
	case s.Info().QUIC:
		return refuse("QUIC's library offers no choice and always uses " + conn.QUICCongestion)
	case asked.Nagle && carried:
		return refuse("a peer opens its sockets")
	}
	if program, foreign := stack.ForeignClient(v); foreign {
		return refuse(program.Name + " opens its own sockets")
	}
	if external, ok := server.(stack.ExternalServer); ok {
		return refuse(external.Program() + " opens its own sockets")
	}
	return nil
}

// InFlight returns a variant's limit of calls in flight. 0 means no limit.
func InFlight(v scenario.Variant) (int, error) {
	o := readCommon(v)
	return scenario.Value[int](o, inFlightKey), o.Err()
}

// Naive reports whether the client deliberately ignores the limits of the machine.
func Naive(v scenario.Variant) bool { return readCommon(v).Text(clientKey) == naiveClient }

// PoolsMessages reports whether the receiver of a stream reuses one message.
func PoolsMessages(v scenario.Variant) bool { return readCommon(v).Text(messagesKey) == pooledMessages }

// Collector returns the GOGC value of a variant's workers. 0 means the default.
func Collector(v scenario.Variant) int { return scenario.Value[int](readCommon(v), collectorKey) }

// Threads returns the GOMAXPROCS value of a variant's workers. 0 means the default.
func Threads(v scenario.Variant) int { return scenario.Value[int](readCommon(v), threadsKey) }

// MemoryLimit returns the memory limit of a variant's workers, in bytes. 0 means the default.
func MemoryLimit(v scenario.Variant) int { return scenario.Value[int](readCommon(v), memoryKey) }

// BusyServer returns how long each handler of a variant computes first.
func BusyServer(v scenario.Variant) time.Duration {
	return scenario.Value[time.Duration](readCommon(v), busyServerKey)
}

// BusyClient returns how long the client computes in each call.
func BusyClient(v scenario.Variant) time.Duration {
	return scenario.Value[time.Duration](readCommon(v), busyClientKey)
}

// CollectorOff is the Collector value of workers that collect garbage only when memory gets short.
const CollectorOff = -1

func parseCollector(text string) (any, error) {
	if text == "off" {
		return CollectorOff, nil
	}
	return scenario.Count(text)
}

// SmallObject returns the limit of Go's small objects in a variant's workers, or 0 for the default.
func SmallObject(v scenario.Variant) int {
	return map[string]int{"16KiB": 16 << 10, "64KiB": 64 << 10}[readCommon(v).Text(smallLimitKey)]
}

func readCommon(v scenario.Variant) *scenario.Options {
	common := commonOptions(v.Stack)
	v.Options = slices.DeleteFunc(slices.Clone(v.Options), func(s scenario.Setting) bool { return !isOneOf(common, s) })
	return scenario.ReadOptions("variant", v, common)
}

func isOneOf(options []scenario.Option, s scenario.Setting) bool {
	return slices.ContainsFunc(options, func(o scenario.Option) bool { return o.Key == s.Key })
}

// ConnectionOf returns the connection mode of a variant. asked is the user's choice, or zero.
func ConnectionOf(s stack.Stack, v scenario.Variant, asked scenario.Connection) scenario.Connection {
	if mode := scenario.Value[scenario.Connection](readCommon(v), connectionKey); mode != (scenario.Connection{}) {
		return mode
	}
	return stack.ConnectionOf(s, v, asked)
}

// CheckConnection returns an error if the variant does not support the requested connection mode.
func CheckConnection(v scenario.Variant, asked scenario.Connection) error {
	s, err := Find(v.Stack)
	if err != nil {
		return err
	}
	if err := readCommon(v).Err(); err != nil {
		return err
	}
	mode := ConnectionOf(s, v, asked).Mode
	if asks, _ := v.Get(connectionKey); asked.Mode == scenario.Auto || strings.HasPrefix(asks, string(scenario.Auto)) {
		return fmt.Errorf("variant %s: connection mode %q is only an option of a stack: write it as in grpc:pool=auto", v, scenario.Auto)
	}
	return stack.CheckLifecycle(s, v, conn.LifecycleOf(mode))
}

// CheckLoad returns an error if the variant's foreign client cannot produce the part's load.
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
		return refuse("supports only a closed loop, but the load is %q: set `model: closed`", p.Load.Model)
	case p.Load.Duration <= 0:
		return refuse("runs for a fixed duration, but the load counts requests: set `duration`, as in 2s, in place of `requests`")
	case limit > 0:
		return refuse("has no in-flight limit: leave out inflight=%d", limit)
	case p.Profile != "", len(p.Probes) > 0:
		return refuse("cannot be profiled or probed: leave out `profile` and `probes`")
	case mode.Mode.PerRequest():
		return refuse("keeps its connections open, but the mode is %s: use shared, per-worker or a pool", mode)
	}
	oneEach := stack.ProtocolFor(s, v) == httpwire.HTTP1.String()
	for _, clients := range p.Clients {
		switch connections := mode.ConnectionCount(clients); {
		case oneEach && connections != clients:
			return refuse("has one caller per connection over HTTP/1.1: use as many connections as clients (%d), not %d", clients, connections)
		case clients%connections != 0:
			return refuse("puts the same number of callers on each connection: use a number of clients, not %d, that is a multiple of the %d connections", clients, connections)
		}
	}
	return nil
}

// Secure returns the variant with TLS on. If the stack has no TLS, Check refuses the result.
func Secure(v scenario.Variant) scenario.Variant {
	s, err := Find(v.Stack)
	if err != nil {
		return v
	}
	return stack.Secure(s, v)
}

// OwnOptions returns the variant without the options in Common and the options of peers.
func OwnOptions(v scenario.Variant) scenario.Variant {
	common := commonOptions(v.Stack)
	v.Options = slices.DeleteFunc(slices.Clone(v.Options), func(s scenario.Setting) bool { return isOneOf(common, s) })
	return v
}

// minQUICMTU is the smallest MTU for QUIC: datagrams of 1200 bytes (RFC 9000, section 14), plus
// the headers of UDP and IPv4.
const minQUICMTU = 1200 + 8 + 20

// CheckNetwork returns an error if the part's link has a smaller MTU than the variant needs.
func CheckNetwork(v scenario.Variant, n scenario.Network) error {
	s, err := Find(v.Stack)
	if err != nil {
		return err
	}
	if s.Info().QUIC && n.MTU != 0 && n.MTU < minQUICMTU {
		return fmt.Errorf("variant %s: QUIC needs packets of %d bytes, but the link's mtu is %d: set a greater mtu, or leave the variant out", v, minQUICMTU, n.MTU)
	}
	return nil
}
