// Package message encodes and decodes the messages of calls, and holds waiting messages.
//
// A sent message passes through a [Codec] and perhaps a compressor into the buffer that is
// written ([Encode]); a stream keeps it in a [ReplayBuffer] while there may be another
// attempt. Received content passes through an [Inbox], which splits it into messages;
// [Decode] decompresses and unmarshals one. An [Aliased] holds the memory that a decoded
// message points into.
//
// This package must not know calls: connections reach it only as the [Source] of an Inbox.
package message

import (
	"os"
	"sync"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/call/wire"
)

// A Message is a received message. If Owner is not nil, Data points into it.
type Message struct {
	Data       []byte
	Owner      *batchio.Buffer
	Compressed bool
	packed     bool // data holds several short messages with their prefixes, see Inbox
	Credit     int  // bytes to return to the stream's window when the message is read
}

// Release gives the message's memory back.
func (m *Message) Release() {
	if m.Owner != nil {
		m.Owner.Release()
	}
	*m = Message{}
}

// Sizes holds a message's length before and after compression.
type Sizes struct{ Plain, Packed int }

// SizesOf returns the sizes of the encoded message in b.
func SizesOf(b *batchio.Buffer) Sizes { return Sizes{b.Plain, len(b.Data) - wire.PrefixLen} }

// Aliased holds the memory that the last message of a call may point into, until the next one is
// read. A handler may return while one of its goroutines still receives. So nobody knows at the
// call's end whether the message is in use, and its memory goes to the garbage collector.
type Aliased struct {
	mu    sync.Mutex
	owner *batchio.Buffer
	ended bool
}

// hold takes over the memory of a message.
func (a *Aliased) hold(m *Message) {
	if CheckAliases && m.Owner != nil {
		own := batchio.NewBuffer(len(m.Data))
		copy(own.Data, m.Data)
		m.Owner.Release()
		m.Data, m.Owner = own.Data, own
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case m.Owner == nil:
	case a.ended:
		m.Owner.Abandon()
	default:
		a.owner = m.Owner
	}
	m.Owner = nil
}

// Release lets the last message's memory be used again.
func (a *Aliased) Release() {
	a.mu.Lock()
	owner := a.owner
	a.owner = nil
	a.mu.Unlock()
	switch {
	case owner == nil:
	case CheckAliases:
		for i := range owner.Data {
			owner.Data[i] = Released
		}
		owner.Abandon()
	default:
		owner.Release()
	}
}

// End gives up the last message's memory.
func (a *Aliased) End() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.owner != nil {
		a.owner.Abandon()
		a.owner = nil
	}
}

// CheckAliases shows uses of a message after its time: its memory is then filled with the byte
// Released, and never used again. It is always set under the race detector, which then reports
// such a use.
var CheckAliases = os.Getenv(AliasVariable) == "check"

const (
	// AliasVariable is the environment variable that sets CheckAliases to true with "check".
	AliasVariable = "FASTGRPC_ALIAS"
	// Released fills the memory of messages that are no longer valid.
	Released = 0xdb
)

// ReplayBuffer keeps the messages sent on a stream while there may be another attempt.
type ReplayBuffer struct {
	Messages []*batchio.Buffer
	pack     *batchio.Buffer // the last of messages, if it holds copies of several short ones
	size     int
	Disabled bool // messages have been dropped, so the stream cannot be retried
}

// MaxReplay bounds the bytes that a stream keeps, unless MaxRetryRPCBufferSize sets another bound.
// The value is grpc-go's.
const MaxReplay = 256 << 10

// Add keeps a message that is about to be sent, unless the stream has sent too much.
func (r *ReplayBuffer) Add(b *batchio.Buffer, limit int) {
	if r.size += len(b.Data); r.size > limit {
		r.Drop()
	}
	switch {
	case r.Disabled:
	case len(r.Messages) == 0 || len(b.Data) >= minAliasLen:
		b.Retain()
		r.Messages = append(r.Messages, b)
		r.pack = nil
	default:
		r.copy(b.Data)
	}
}

// copy keeps a short message in a shared buffer: a buffer for each would cost far more.
func (r *ReplayBuffer) copy(data []byte) {
	if r.pack == nil || cap(r.pack.Data)-len(r.pack.Data) < len(data) {
		size := len(data)
		if r.pack != nil {
			size = max(size, min(packSize, packGrowth*cap(r.pack.Data)))
		}
		r.pack = batchio.NewBuffer(size)
		r.pack.Data = r.pack.Data[:0]
		r.Messages = append(r.Messages, r.pack)
	}
	r.pack.Data = append(r.pack.Data, data...)
}

// Drop drops the messages, and keeps no later ones.
func (r *ReplayBuffer) Drop() {
	for _, b := range r.Messages {
		b.Release()
	}
	r.Messages, r.pack, r.Disabled = nil, nil, true
}
