// Package wire holds the details of gRPC over HTTP/2 that do not depend on a connection: the
// names of header fields, metadata as header fields, timeouts, statuses as trailers, HTTP
// statuses as codes, and the prefix of messages.
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
//
// It must not know streams, nor whose library calls it: its errors name none.
package wire
