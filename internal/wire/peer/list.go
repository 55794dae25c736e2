package peer

// Values that several peers share.
var (
	echo  = []string{"echo"}
	calls = []string{"echo", "ping", "chat"}
	kept  = []string{"shared", "per-worker", "pool"} // connections
	orNew = []string{"shared", "per-worker", "pool", "new"}
)

var rust = Peer{
	Name: "rust", Language: "Rust",
	Libraries: "epoll or io_uring (tcp), hyper (h1, h2), quinn and h3 (h3), tonic (grpc)",
	Wires: []Wire{
		{Stack: "tcp", Ends: Both, Workloads: echo, Connections: orNew, Options: []Option{{
			Key: "io", End: Both, Values: []string{"epoll", "uring"}, Default: "epoll",
			Help: "the kernel interface: epoll, or io_uring where it is allowed",
		}}},
		{Stack: "h1", Ends: Both, Workloads: echo, Connections: orNew},
		{Stack: "h2", Ends: Both, Workloads: echo, Connections: orNew},
		{Stack: "h3", Ends: Both, Workloads: echo, Connections: orNew},
		{Stack: "grpc", Ends: Both, Workloads: calls, Connections: orNew},
	},
	tools: []tool{
		{"cargo", "Rust's toolchain (https://rustup.rs, 1.85 or newer)"},
		{"cc", "the package gcc"},
	},
	steps: [][]string{{"cargo", "build", "--release", "--locked"}},
	built: "target/release/wirelab-peer-rust",
}

var cpp = Peer{
	Name: "cpp", Language: "C++",
	Libraries: "epoll (tcp), gRPC's C-core (grpc)",
	Wires: []Wire{
		{Stack: "tcp", Ends: Both, Workloads: echo, Connections: kept},
		{Stack: "grpc", Ends: Both, Workloads: calls, Connections: kept, Options: []Option{
			{
				Key: "api", End: Client, Values: []string{"sync", "async", "callback"}, Default: "sync", Alone: true,
				Help: "how the client calls: a thread per caller, a completion queue, or callbacks",
			},
			{
				Key: "channels", End: Client, Values: []string{"one", "same", "distinct", "local"}, Default: "one",
				Help: "one: callers share a channel; same: equal channels, which C-core joins into one connection; distinct: channels that differ in an argument; local: each channel has its own subchannel pool; if left out, local if there are several connections",
			},
			{Key: "queues", End: Server, Help: "N: completion queues; one per CPU if left out"},
			{Key: "threads", End: Server, Help: "N: threads per queue; 1 if left out"},
			{Key: "calls", End: Server, Help: "N: calls that wait on each queue for requests; 100 if left out"},
		}},
	},
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

// c is a baseline: a server of bare TCP that only reads and writes frames.
var c = Peer{
	Name: "c", Language: "C",
	Libraries: "epoll alone, in a hundred lines (tcp)",
	Wires:     []Wire{{Stack: "tcp", Ends: Server, Workloads: echo}},
	tools:     []tool{{"cc", "the package gcc"}},
	steps:     [][]string{{"cc", "-O2", "-o", "echo", "echo.c"}},
	built:     "echo",
}

var java = Peer{
	Name: "java", Language: "Java",
	Libraries: "grpc-java on Netty (grpc)",
	Wires: []Wire{{Stack: "grpc", Ends: Both, Workloads: calls, Connections: kept, Options: []Option{{
		Key: "api", End: Client, Values: []string{"sync", "async"}, Default: "sync", Alone: true,
		Help: "how the client calls: a thread per caller, which blocks, or callbacks",
	}}}},
	tools: []tool{
		{"mvn", "the package maven"},
		{"javac", "a JDK of 17 or newer, as in the package openjdk-17-jdk-headless"},
	},
	steps: [][]string{{"sh", "build.sh"}},
	built: "build/wirelab-peer-java",
}

var python = Peer{
	Name: "python", Language: "Python",
	Libraries: "C-core's newest release, in grpcio's wheel (grpc): for compatibility, not for speed",
	Wires:     []Wire{{Stack: "grpc", Ends: Both, Workloads: calls, Connections: kept}},
	tools:     []tool{{"python3", "the packages python3 and python3-pip"}},
	steps:     [][]string{{"sh", "build.sh"}},
	built:     "build/wirelab-peer-python/start",
	keeps:     "build/wirelab-peer-python",
}
