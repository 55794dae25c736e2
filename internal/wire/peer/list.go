package peer

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// These lists of workloads and connection modes are shared by several peers.
var (
	echoOnly       = []string{"echo"}
	callWorkloads  = []string{"echo", "ping", "chat"}
	keptModes      = []string{"shared", "per-worker", "pool"} // connection modes
	keptOrNewModes = []string{"shared", "per-worker", "pool", "new"}
	turnsOnly      = []string{"slices"} // controls
)

var rust = Peer{
	Name: "rust", Language: "Rust",
	Libraries: "epoll or io_uring (tcp), hyper (h1, h2), quinn and h3 (h3), tonic or ntex-grpc (grpc)",
	Wires: []Wire{
		{Stack: "tcp", Ends: Both, Workloads: echoOnly, Connections: keptOrNewModes, Options: []Option{{
			Key: "io", End: Both, Values: []string{"epoll", "uring"}, Default: "epoll",
			Help: "the kernel interface: epoll, or io_uring where it is allowed",
		}}},
		{Stack: "h1", Ends: Both, Workloads: echoOnly, Connections: keptOrNewModes},
		{Stack: "h2", Ends: Both, Workloads: echoOnly, Connections: keptOrNewModes},
		{Stack: "h3", Ends: Both, Workloads: echoOnly, Connections: keptOrNewModes},
		{Stack: "grpc", Ends: Both, Workloads: callWorkloads, Connections: keptOrNewModes, Options: []Option{{
			Key: "library", End: Both, Values: []string{"tonic", "ntex"}, Default: "tonic", Alone: true,
			Help:      "tonic, which most people use, or ntex-grpc, which is faster with small messages, but has no streams and no limit on a message",
			Workloads: map[string][]string{"ntex": {"echo", "ping"}},
		}}},
	},
	Controls: turnsOnly,
	tools: []tool{
		{"cargo", "Rust's toolchain (https://rustup.rs, 1.89 or newer)"},
		{"cc", "the package gcc"},
	},
	steps: [][]string{{"cargo", "build", "--release", "--locked"}},
	built: "target/release/wirelab-peer-rust",
}

var cpp = Peer{
	Name: "cpp", Language: "C++",
	Libraries: "epoll (tcp), gRPC's C-core (grpc)",
	Wires: []Wire{
		{Stack: "tcp", Ends: Both, Workloads: echoOnly, Connections: keptModes},
		{Stack: "grpc", Ends: Both, Workloads: callWorkloads, Connections: keptModes, Options: []Option{
			{
				Key: "api", End: Client, Values: []string{"sync", "async", "callback"}, Default: "sync", Alone: true,
				Help: "how the client calls: one thread per caller, a completion queue, or callbacks",
			},
			{
				Key: "channels", End: Client, Values: []string{"one", "same", "distinct", "local"}, Default: "one",
				Help: "one: all callers share one channel; same: equal channels, which C-core joins into one connection; distinct: channels with different arguments; local: channels with their own subchannel pools; default: local with several connections, else one",
			},
			{Key: "queues", End: Server, Help: "N: completion queues; one per CPU if left out"},
			{Key: "threads", End: Server, Help: "N: threads per queue; 1 if left out"},
			{Key: "calls", End: Server, Help: "N: calls on each queue that wait for requests; 100 if left out"},
		}},
	},
	Controls: turnsOnly,
	tools: []tool{
		{"cmake", "the package cmake"},
		{"c++", "the package g++"},
		{"grpc_cpp_plugin", "the packages libgrpc++-dev, libprotobuf-dev and protobuf-compiler-grpc"},
		{"protoc", "the package protobuf-compiler"},
	},
	steps: [][]string{
		{"cmake", "-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Release"},
		{"cmake", "--build", "build", "--parallel"},
	},
	built: "build/wirelab-peer-cpp",
}

// c is the baseline for the stack tcp: its server only reads and writes frames.
var c = Peer{
	Name: "c", Language: "C",
	Libraries: "plain epoll, in a hundred lines of C (tcp)",
	Wires:     []Wire{{Stack: "tcp", Ends: Server, Workloads: echoOnly}},
	tools:     []tool{{"cc", "the package gcc"}},
	steps:     [][]string{{"cc", "-O2", "-o", "echo", "echo.c"}},
	built:     "echo",
}

var java = Peer{
	Name: "java", Language: "Java",
	Libraries: "grpc-java on Netty (grpc)",
	Wires: []Wire{{Stack: "grpc", Ends: Both, Workloads: callWorkloads, Connections: keptModes, Options: []Option{{
		Key: "api", End: Client, Values: []string{"sync", "async"}, Default: "sync", Alone: true,
		Help: "how the client calls: one blocking thread per caller, or callbacks",
	}}}},
	tools: []tool{
		{"mvn", "the package maven"},
		{"javac", "JDK 17 or newer, as in the package openjdk-17-jdk-headless"},
	},
	steps: [][]string{{"sh", "build.sh"}},
	built: "build/wirelab-peer-java",
}

var python = Peer{
	Name: "python", Language: "Python",
	Libraries: "the newest C-core, from grpcio's wheel (grpc): for compatibility tests, not speed tests",
	Wires:     []Wire{{Stack: "grpc", Ends: Both, Workloads: callWorkloads, Connections: keptModes}},
	tools:     []tool{{"python3", "the packages python3 and python3-pip"}},
	steps:     [][]string{{"sh", "build.sh"}},
	built:     "build/wirelab-peer-python/start",
	keeps:     "build/wirelab-peer-python",
}

// rivals has the stacks of other Go libraries. It is a Go module of its own, because wirelab must
// not depend on these libraries.
var rivals = Peer{
	Name: "rivals", Language: "Go",
	Libraries: "other Go libraries: kitex, drpc, ttrpc, rpcx",
	Wires: []Wire{
		{Stack: "kitex", Ends: Both},
		{Stack: "drpc", Ends: Both},
		{Stack: "ttrpc", Ends: Both},
		{Stack: "rpcx", Ends: Both},
	},
	OwnEngine: true,
	tools:     []tool{{"go", "Go (https://go.dev/dl), of the version in wirelab's go.mod or newer"}},
	module:    "peers/rivals",
	steps:     [][]string{{"go", "build", "-trimpath", "-o", outputName, "."}},
	built:     "wirelab-peer-rivals",
}

// WriteList prints one line for each peer.
func WriteList(to io.Writer, all []PeerState) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "peer\tlanguage\tserves\tstate")
	for _, p := range all {
		state := "not built: wirelab peers build " + p.Name
		switch {
		case p.Program != "":
			state = "built"
		case p.Missing != "":
			state = "cannot be built: " + p.Missing
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.Name, p.Language, p.Libraries, state)
	}
	return w.Flush()
}
