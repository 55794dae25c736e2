package report

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/insight"
)

// fixtureStack is a stack with the nanoseconds that a call spends in it. A function
// that is not the program's own is written as name@where.
type fixtureStack struct {
	frames   string // outermost first, with semicolons
	category string
	perCall  float64
}

// fixtureProfile makes a profile as analysis does: its weights are shares of its sum.
func fixtureProfile(variant, end, kind string, samples int64, stacks []fixtureStack) insight.Profile {
	p := insight.Profile{
		Part: "matrix", Variant: variant, Place: record.Place{Workload: "echo", Payload: record.Payload{RequestBytes: 1024, ResponseBytes: 1024}, Clients: 50},
		End: end, Kind: kind, Unit: "ns", Samples: samples,
	}
	if kind == insight.AllocProfile {
		p.Unit = "B"
	}
	for _, s := range stacks {
		p.PerCall += s.perCall
	}
	var categories indexedList[string]
	var functions indexedList[insight.ProfiledFunction]
	for _, s := range stacks {
		var of []insight.ProfiledFunction
		for frame := range strings.SplitSeq(s.frames, ";") {
			name, in, _ := strings.Cut(frame, "@")
			of = append(of, insight.ProfiledFunction{Name: name, In: in})
		}
		p.Stacks = append(p.Stacks, insight.ProfiledStack{
			Frames: functions.indexesOf(of), Category: categories.indexesOf([]string{s.category})[0], Weight: s.perCall / p.PerCall,
		})
	}
	p.Categories, p.Functions = categories.list, functions.list
	return p
}

// Frames that many of the stacks have in common.
const (
	serveHTTP2 = "runtime.goexit;net/http.(*http2serverConn).serve;net/http.(*http2serverConn).runHandler;google.golang.org/grpc/internal/transport.(*serverHandlerTransport).HandleStreams;google.golang.org/grpc.(*Server).handleStream;"
	writeTCP   = "net.(*conn).Write;internal/poll.(*FD).Write;syscall.write;"
	inKernel   = "entry_SYSCALL_64@kernel;ksys_write@kernel;tcp_sendmsg@kernel;"
)

// fixtureProfiles returns the profiles of two cells. The second cell's server has no codec, and
// spends more time in the kernel.
func fixtureProfiles() []insight.Profile {
	grpcServer := []fixtureStack{
		{serveHTTP2 + "google.golang.org/grpc.(*Server).processUnaryRPC;google.golang.org/protobuf/proto.Unmarshal", "encoding", 1000},
		{serveHTTP2 + "google.golang.org/grpc.(*Server).processUnaryRPC;google.golang.org/protobuf/proto.Unmarshal;runtime.mallocgc", "memory", 500},
		{serveHTTP2 + "google.golang.org/grpc.(*Server).processUnaryRPC;google.golang.org/protobuf/proto.Marshal", "encoding", 500},
		{serveHTTP2 + "google.golang.org/grpc.(*Server).processUnaryRPC", "RPC library", 500},
		{serveHTTP2 + writeTCP + inKernel + "tcp_write_xmit@kernel", "kernel: network", 3000},
		{serveHTTP2 + writeTCP + inKernel + "copy_from_iter@kernel", "kernel: network", 1000},
		{serveHTTP2 + "golang.org/x/net/http2/hpack.(*Decoder).Write", "headers", 1000},
		{"runtime.mcall;runtime.park_m;runtime.schedule;runtime.findRunnable", "scheduler", 1500},
		{"runtime.gcBgMarkWorker;runtime.systemstack;runtime.gcDrain;runtime.scanobject", "garbage collector", 1000},
	}
	tcpServer := []fixtureStack{
		{"runtime.goexit;wirelab.dev/internal/wire/stack/tcp.(*server).serve;" + writeTCP + inKernel + "tcp_write_xmit@kernel", "kernel: network", 4000},
		{"runtime.goexit;wirelab.dev/internal/wire/stack/tcp.(*server).serve;wirelab.dev/internal/wire/stack/tcp.readFrame[go.shape.[]uint8]", "RPC library", 250},
		{"runtime.mcall;runtime.park_m;runtime.schedule;runtime.findRunnable", "scheduler", 750},
		{"runtime.gcBgMarkWorker;runtime.systemstack;runtime.gcDrain;runtime.scanobject", "garbage collector", 1004},
	}
	client := []fixtureStack{
		{"runtime.goexit;wirelab.dev/internal/run/load.(*worker).run;google.golang.org/grpc.(*ClientConn).Invoke;google.golang.org/grpc/internal/transport.(*http2Client).Write", "RPC library", 2000},
		{"runtime.goexit;google.golang.org/grpc/internal/transport.(*loopyWriter).run;" + writeTCP + inKernel + "tcp_write_xmit@kernel", "kernel: network", 4500},
		{"runtime.mcall;runtime.park_m;runtime.schedule;runtime.findRunnable", "scheduler", 2500},
	}
	waits := []fixtureStack{
		{"runtime.goexit;google.golang.org/grpc/internal/transport.(*loopyWriter).run;sync.(*Cond).Wait", "lock", 30_000},
		{"runtime.goexit;wirelab.dev/internal/run/load.(*worker).run;internal/poll.(*FD).Read", "network", 90_000},
	}
	allocates := []fixtureStack{
		{serveHTTP2 + "google.golang.org/protobuf/proto.Unmarshal;runtime.mallocgc", "encoding", 1536},
		{serveHTTP2 + "google.golang.org/grpc.(*Server).processUnaryRPC", "RPC library", 512},
	}
	return []insight.Profile{
		fixtureProfile("grpc", insight.ServerEnd, insight.CPUProfile, 20_000, grpcServer),
		fixtureProfile("grpc", insight.ClientEnd, insight.CPUProfile, 18_000, client),
		fixtureProfile("grpc", insight.ClientEnd, insight.OffCPUProfile, 0, waits),
		fixtureProfile("grpc", insight.ServerEnd, insight.AllocProfile, 4_000, allocates),
		fixtureProfile("tcp", insight.ServerEnd, insight.CPUProfile, 12_000, tcpServer),
		fixtureProfile("tcp", insight.ClientEnd, insight.CPUProfile, 11_000, client[1:]),
	}
}

// manyStacks returns a profile of count different stacks, with 30 frames on average. As in a
// program, most stacks differ from another one only near their end.
func manyStacks(variant, end string, count int) insight.Profile {
	random := rand.New(rand.NewPCG(7, uint64(count)))
	const functions, categories, depth, newFrames = 3000, 9, 30, 6
	p := insight.Profile{
		Part: "matrix", Variant: variant, Place: record.Place{Workload: "echo", Payload: record.Payload{RequestBytes: 1024, ResponseBytes: 1024}, Clients: 50},
		End: end, Kind: insight.CPUProfile, Unit: "ns", Samples: 1_000_000, PerCall: 25_000,
	}
	for i := range categories {
		p.Categories = append(p.Categories, fmt.Sprintf("category %d", i))
	}
	for i := range functions {
		p.Functions = append(p.Functions, insight.ProfiledFunction{Name: fmt.Sprintf("example.com/organisation/module%d/package%d.(*Type%d).Method%d", i%40, i%150, i%700, i)})
	}
	seen := map[string]bool{}
	sum := 0.0
	var before []int
	for len(p.Stacks) < count {
		frames := slices.Clone(before[:max(0, len(before)-int(newFrames*random.ExpFloat64()))])
		for length := depth/2 + random.IntN(depth); len(frames) < length; {
			frames = append(frames, int(functions*random.Float64()*random.Float64()*random.Float64()))
		}
		before = frames
		key := fmt.Sprint(frames)
		if seen[key] {
			continue
		}
		seen[key] = true
		weight := random.ExpFloat64() * random.ExpFloat64()
		sum += weight
		p.Stacks = append(p.Stacks, insight.ProfiledStack{Frames: frames, Category: frames[len(frames)-1] % categories, Weight: weight})
	}
	for i := range p.Stacks {
		p.Stacks[i].Weight /= sum
	}
	return p
}
