package peer

// What peers have in common.
var (
	echo    = []string{"echo"}
	calls   = []string{"echo", "ping", "chat"}
	kept    = []string{"shared", "per-worker", "pool"}
	perCall = []string{"shared", "per-worker", "pool", "new"}
)

var rust = Peer{
	Name: "rust", Language: "Rust",
	Libraries: "epoll (tcp), hyper (h1, h2), tonic (grpc)",
	Wires: []Wire{
		{Stack: "tcp", Ends: Server, Workloads: echo},
		{Stack: "h1", Ends: Server, Workloads: echo},
		{Stack: "h2", Ends: Server, Workloads: echo},
		{Stack: "grpc", Ends: Server, Workloads: echo},
	},
	tools: []tool{{"cargo", "Rust's toolchain (https://rustup.rs, 1.85 or newer)"}},
	steps: [][]string{{"cargo", "build", "--release", "--locked"}},
	built: "target/release/wirelab-peer-rust",
}

var cpp = Peer{
	Name: "cpp", Language: "C++",
	Libraries: "gRPC's C-core (grpc)",
	Wires:     []Wire{{Stack: "grpc", Ends: Server, Workloads: echo}},
	tools: []tool{
		{"cmake", "the package cmake"},
		{"c++", "the package g++"},
		{"grpc_cpp_plugin", "the packages libgrpc++-dev and protobuf-compiler-grpc"},
		{"protoc", "the package protobuf-compiler"},
	},
	steps: [][]string{
		{"cmake", "-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Release"},
		{"cmake", "--build", "build", "--parallel"},
	},
	built: "build/wirelab-peer-cpp",
}
