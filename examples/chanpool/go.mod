module example.com/chanpool

go 1.26.8

require (
	golang.org/x/sync v0.24.0
	google.golang.org/grpc v1.85.0
	wirelab.dev/rpc v0.1.0
)

require (
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261019180522-ce908d29299b // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace wirelab.dev/rpc => ../../rpc
