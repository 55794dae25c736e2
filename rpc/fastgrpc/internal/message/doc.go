// Package message encodes and decodes the messages of calls, and holds those that wait.
//
// A sent message passes through a [Codec] and perhaps a compressor into the buffer that is
// written ([Encode]); a stream keeps it in a [ReplayBuffer] while there may be another
// attempt. Received content passes through an [Inbox], which splits it into messages;
// [Decode] decompresses and unmarshals one. An [Aliased] holds the memory that a decoded
// message points into.
//
// This package must not know calls: connections reach it only as the [Source] of an Inbox.
package message
