// Package fastgrpc is a gRPC transport.
package fastgrpc
