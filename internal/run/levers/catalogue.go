// Package levers looks for the setting that makes a cell of a run faster.
//
//	run, cells ── Ask ──> question ── Scenario ──> scenario of one part: the plain variant, and one
//	                                               variant for each lever, measured as any scenario
//	                      question ── Together ──> scenario of the best two levers, alone and together
//
// Catalogue is the list of levers. A lever is one option of a variant, so all levers of a question
// take turns in the same blocks. Package compare judges them, and package advice says what moved.
//
// This package must not measure anything, or know how wirelab shows a run.
package levers

import (
	"runtime"
	"slices"
	"strings"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/insight"
)

// A Lever is a change of one option of a variant. To add a lever, add it to Catalogue.
type Lever struct {
	Key, Value string
	Stacks     []string            // the stacks whose programs need this line; empty means every stack that has the option
	Acts       []insight.CauseKind // the causes that it acts on
	Write      string              // the line to write into one's own program
	Costs      string              // the price of the change
	// Fits reports whether the lever can change the cell at all. nil means that it always can.
	Fits func(scenario.Cell) bool
	// OnlyNamed explains why the lever is tried only if the user names it. Empty means that it is
	// tried without that.
	OnlyNamed string
}

// Name returns the lever in the form of a variant's option.
func (l Lever) Name() string { return l.Key + "=" + l.Value }

// Help says in one line what the lever acts on, what to write into a program, and the price.
func (l Lever) Help() string {
	text := "acts on " + joinCauses(l.Acts) + ": " + l.Write + "; the price: " + l.Costs
	if len(l.Stacks) > 0 {
		text = strings.Join(l.Stacks, ", ") + ": " + text
	}
	return text
}

// actsOn returns the position of the first of these causes that the lever acts on, or -1.
func (l Lever) actsOn(causes []insight.CauseKind) int {
	return slices.IndexFunc(causes, func(c insight.CauseKind) bool { return slices.Contains(l.Acts, c) })
}

// hasCPUsForEachEnd reports whether client and server each have several CPUs.
func hasCPUsForEachEnd(scenario.Cell) bool { return runtime.NumCPU() >= 4 }

func hasSeveralClients(c scenario.Cell) bool { return c.Clients > 1 }

// isLarge reports whether messages are larger than the pools' smallest tiers.
func isLarge(c scenario.Cell) bool { return max(c.Size.Request, c.Size.Response) >= 8<<10 }

func isHuge(c scenario.Cell) bool { return max(c.Size.Request, c.Size.Response) >= 64<<10 }

func hasLink(c scenario.Cell) bool { return c.Network.HasLink() }

// causes makes a list of causes readable.
func causes(kinds ...insight.CauseKind) []insight.CauseKind { return kinds }

// Catalogue lists the levers. Without suspects, the first that fit are tried.
var Catalogue = []Lever{
	{
		Key: "gogc", Value: "400", Acts: causes(insight.ByCollector, insight.ByAllocation),
		Write: "debug.SetGCPercent(400) // or GOGC=400", Costs: "the heap grows to 5 times its live memory",
	},
	{
		Key: "window", Value: "16MiB", Stacks: []string{"grpc"}, Acts: causes(insight.ByWindow, insight.ByLink, insight.ByHeadOfLine), Fits: func(c scenario.Cell) bool { return isHuge(c) || hasLink(c) },
		Write: "grpc.WithInitialWindowSize(16<<20), grpc.WithInitialConnWindowSize(16<<20) // server: grpc.InitialWindowSize, grpc.InitialConnWindowSize", Costs: "a slow reader can hold 16 MiB of memory",
	},
	{
		Key: "window", Value: "16MiB", Stacks: []string{"creditrpc"}, Acts: causes(insight.ByWindow, insight.ByLink, insight.ByHeadOfLine), Fits: func(c scenario.Cell) bool { return isHuge(c) || hasLink(c) },
		Write: "creditrpc.Window(16 << 20) // at the server", Costs: "a slow handler can hold 16 MiB of memory per connection",
	},
	{
		Key: "conns", Value: "4", Acts: causes(insight.ByConnection, insight.ByHeadOfLine, insight.ByLock, insight.ByWindow), Fits: hasSeveralClients,
		Write: "four grpc.NewClient connections, used in turn", Costs: "4 connections and their buffers; a call may wait behind others on its connection",
	},
	{
		Key: "pool", Value: "auto", Stacks: []string{"grpc"}, Acts: causes(insight.ByConnection, insight.ByHeadOfLine, insight.ByLock), Fits: hasSeveralClients,
		Write: "chanpool.New(dial) // wirelab.dev/rpc/chanpool", Costs: "up to 16 connections and their buffers",
	},
	{
		Key: "conn", Value: "pool:4", Stacks: []string{"h2", "h3", "connect", "grpc-h3", "fastgrpc", "creditrpc", "ttrpc", "rpcx", "kitex"}, Acts: causes(insight.ByConnection, insight.ByHeadOfLine, insight.ByLock), Fits: hasSeveralClients,
		Write: "four connections, used in turn", Costs: "4 connections and their buffers",
	},
	{
		Key: "pool", Value: "on", Stacks: []string{"drpc"}, Acts: causes(insight.ByConnection, insight.ByHeadOfLine), Fits: hasSeveralClients,
		Write: "drpcpool.New(drpcpool.Options{})", Costs: "a connection per call in flight",
	},
	{
		Key: "buffers", Value: "pooled", Stacks: []string{"tcp"}, Acts: causes(insight.ByFaults, insight.ByAllocation, insight.ByCollector, insight.ByCopying, insight.ByRunQueue),
		Write: "keep one buffer per connection, and read and write each frame in it", Costs: "a connection keeps the memory of its largest frame",
	},
	{
		Key: "pool-tiers", Value: "256/4KiB/16KiB/64KiB/1MiB", Acts: causes(insight.ByFaults, insight.ByAllocation, insight.ByCollector), Fits: isLarge,
		Write: "experimental.WithBufferPool(mem.NewTieredBufferPool(256, 4<<10, 16<<10, 64<<10, 1<<20)) // both ends", Costs: "idle buffers of up to 1 MiB stay in memory",
	},
	{
		Key: "buffers", Value: "256KiB", Stacks: []string{"grpc"}, Acts: causes(insight.BySystemCalls, insight.ByPackets, insight.ByWaking), Fits: isLarge,
		Write: "grpc.WithReadBufferSize(256<<10), grpc.WithWriteBufferSize(256<<10) // server: grpc.ReadBufferSize, grpc.WriteBufferSize", Costs: "512 KiB of memory per connection",
	},
	{
		Key: "codec", Value: "vt2", Acts: causes(insight.ByEncoding, insight.ByAllocation),
		Write: "grpc.ForceCodecV2(codec) with methods by protoc-gen-go-vtproto", Costs: "generated code that must be kept up to date",
	},
	{
		Key: "codec", Value: "vt", Acts: causes(insight.ByEncoding, insight.ByAllocation),
		Write: "the vtprotobuf codec, with methods by protoc-gen-go-vtproto", Costs: "generated code that must be kept up to date",
	},
	{
		Key: "codec", Value: "protobuf", Acts: causes(insight.ByEncoding, insight.ByAllocation, insight.ByCopying),
		Write: "send application/protobuf in place of JSON", Costs: "messages that people cannot read",
	},
	{
		Key: "alias", Value: "on", Acts: causes(insight.ByCopying, insight.ByAllocation, insight.ByFaults), Fits: isLarge,
		Write: "let long bytes fields point into the receive buffer", Costs: "the message must not be used after the call",
	},
	{
		Key: "inflight", Value: "8", Acts: causes(insight.ByRunQueue, insight.ByHeadOfLine, insight.ByWindow, insight.ByFaults), Fits: func(c scenario.Cell) bool { return c.Clients >= 16 },
		Write: "slots := make(chan struct{}, 8) // slots <- struct{}{} before a call, <-slots after it", Costs: "further calls wait in the client",
	},
	{
		Key: "gate", Value: "8", Stacks: []string{"tcp"}, Acts: causes(insight.ByRunQueue, insight.ByFaults), Fits: func(c scenario.Cell) bool { return c.Clients >= 16 },
		Write: "gate := make(chan struct{}, 8) // at the server, around each frame", Costs: "further calls wait in their sockets",
	},
	{
		Key: "cert", Value: "ecdsa", Acts: causes(insight.ByHandshake),
		Write: "a certificate with an ECDSA P-256 key", Costs: "clients older than 2010 cannot connect",
	},
	{
		Key: "conn", Value: "resumed", Acts: causes(insight.ByHandshake), Fits: func(c scenario.Cell) bool { return c.Connection.Mode == scenario.New },
		Write: "tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(0)}", Costs: "the first connection still has the full handshake",
	},
	{
		Key: "conn", Value: "pool", Acts: causes(insight.ByHandshake), Fits: func(c scenario.Cell) bool { return c.Connection.Mode.PerRequest() },
		Write: "keep connections open, and use them again", Costs: "idle connections at both ends",
	},
	{
		Key: "group", Value: "x25519", Acts: causes(insight.ByHandshake), Fits: func(c scenario.Cell) bool { return c.Connection.Mode.PerRequest() },
		Write: "tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}}", Costs: "no protection against recording now and breaking later with a quantum computer",
	},
	{
		Key: "tls", Value: "off", Acts: causes(insight.ByEncryption, insight.ByHandshake),
		Write: "insecure.NewCredentials() // or http:// in place of https://", Costs: "whoever can see the network can read and change the calls",
	},
	{
		Key: "gogc", Value: "off", Acts: causes(insight.ByCollector),
		Write: "debug.SetGCPercent(-1); debug.SetMemoryLimit(800 << 20) // or GOGC=off GOMEMLIMIT=800MiB", Costs: "memory grows to the limit",
	},
	{
		Key: "gomaxprocs", Value: "1", Acts: causes(insight.ByWaking, insight.ByRunQueue, insight.ByNeighbour), Fits: hasCPUsForEachEnd,
		Write: "runtime.GOMAXPROCS(1) // or GOMAXPROCS=1", Costs: "Go code of each end uses at most one CPU",
	},
	{
		Key: "gomaxprocs", Value: "2", Acts: causes(insight.ByRunQueue, insight.ByWaking, insight.BySharedCPU), Fits: func(c scenario.Cell) bool { return !hasCPUsForEachEnd(c) },
		Write: "runtime.GOMAXPROCS(2) // or GOMAXPROCS=2", Costs: "more switching between threads on one CPU",
	},
	{
		Key: "cpus", Value: "shared", Acts: causes(insight.ByRunQueue, insight.BySharedCPU, insight.ByWaking, insight.ByNeighbour),
		Write: "taskset --all-tasks --pid --cpu-list 0-$(($(nproc --all)-1)) PID // both ends: take away taskset, cpuset or CPU sets of systemd", Costs: "the ends can take CPU time from each other, and times vary more",
	},
	{
		Key: "cpus", Value: "one", Acts: causes(insight.ByWaking, insight.BySharedCPU, insight.ByNeighbour), Fits: hasCPUsForEachEnd,
		Write: "taskset --cpu-list N PROGRAM // another N for each end", Costs: "each end uses at most one CPU",
	},
	{
		Key: "spin", Value: "100us", Stacks: []string{"creditrpc"}, Acts: causes(insight.ByWaking),
		Write: "poll for 100 µs before a thread sleeps", Costs: "both ends keep a CPU busy",
	},
	{
		Key: "messages", Value: "pooled", Acts: causes(insight.ByAllocation, insight.ByCollector, insight.ByFaults), Fits: isLarge,
		Write: "receive each message of a stream into the same struct", Costs: "a message must not be used after the next one arrives",
	},
	{
		Key: "http", Value: "2", Acts: causes(insight.ByProtocol, insight.ByConnection),
		Write: "http.Server{Protocols: …} with SetHTTP2(true), or SetUnencryptedHTTP2(true)", Costs: "all calls share one connection",
	},
	{
		Key: "framing", Value: "plain", Stacks: []string{"tcp"}, Acts: causes(insight.ByProtocol),
		Write: "frames without call numbers", Costs: "one call at a time per connection",
	},
	{
		Key: "nagle", Value: "on", Acts: causes(insight.ByPackets, insight.BySystemCalls), Fits: hasSeveralClients,
		Write: "connection.SetNoDelay(false) // of *net.TCPConn, at both ends", Costs: "a small write can wait 40 ms for an acknowledgement",
	},
	{
		Key: "cc", Value: "bbr", Acts: causes(insight.ByLink, insight.ByPackets), Fits: hasLink,
		Write: "setsockopt TCP_CONGESTION bbr, or sysctl net.ipv4.tcp_congestion_control=bbr", Costs: "other connections on the link may get less",
	},
	{
		Key: "cc", Value: "reno", Acts: causes(insight.ByLink), Fits: hasLink,
		Write: "setsockopt TCP_CONGESTION reno", Costs: "slow recovery after losses on long links",
	},
	{
		Key: "smallobject", Value: "64KiB", Acts: causes(insight.ByFaults, insight.ByAllocation), Fits: isLarge,
		Write: "a Go runtime whose allocator has size classes up to 64 KiB", Costs: "your own build of Go",
		OnlyNamed: "it builds wirelab with a changed Go runtime, which takes minutes: name it with --levers smallobject=64KiB",
	},
}
