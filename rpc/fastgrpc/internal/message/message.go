// Package message encodes and decodes the messages of calls, and queues received messages.
//
// [Encode] encodes a message with a [Codec] and perhaps a compressor. A stream keeps the encoded
// messages in a [ReplayBuffer] while it may need another attempt. An [Inbox] splits received
// content into messages, and [Decode] decompresses and unmarshals a message. An [AliasedMemory]
// keeps the memory into which a decoded message points.
//
// This package must not know calls. It sees a connection only as the [Source] of an Inbox.
package message

import (
	"os"
	"sync"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/call/wire"
)

// A Message is a received message. If Owner is not nil, Data points into Owner's memory.
type Message struct {
	Data       []byte
	Owner      *batchio.Buffer
	Compressed bool
	packed     bool // Data holds several short messages with their prefixes, see Inbox
	Credit     int  // bytes to return to the stream's window when the message is read
}

// Release releases the message's memory, which may then be reused.
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

// AliasedMemory keeps the memory into which a call's last message may point, until the call's next
// message is read. When the call ends, a goroutine of the handler may still use the message. So
// EndCall leaves the memory to the garbage collector and does not reuse it.
type AliasedMemory struct {
	mu    sync.Mutex
	owner *batchio.Buffer
	ended bool
}

// takeOver moves the memory of m into a.
func (a *AliasedMemory) takeOver(m *Message) {
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

// Release releases the last message's memory, which may then be reused.
func (a *AliasedMemory) Release() {
	a.mu.Lock()
	owner := a.owner
	a.owner = nil
	a.mu.Unlock()
	switch {
	case owner == nil:
	case CheckAliases:
		for i := range owner.Data {
			owner.Data[i] = ReleasedByte
		}
		owner.Abandon()
	default:
		owner.Release()
	}
}

// EndCall leaves the memory of the last message, and of later ones, to the garbage collector.
func (a *AliasedMemory) EndCall() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.owner != nil {
		a.owner.Abandon()
		a.owner = nil
	}
}

// CheckAliases makes wrong uses of aliased messages visible. When a message is no longer valid, its
// memory is filled with ReleasedByte and never reused. The race detector always sets CheckAliases,
// and reports wrong uses as data races.
var CheckAliases = os.Getenv(AliasEnvVar) == "check"

const (
	// AliasEnvVar is the environment variable that sets CheckAliases if its value is "check".
	AliasEnvVar = "FASTGRPC_ALIAS"
	// ReleasedByte fills the memory of aliased messages that are no longer valid.
	ReleasedByte = 0xdb
)

// ReplayBuffer keeps the messages sent on a stream while the stream may need another attempt.
type ReplayBuffer struct {
	Messages []*batchio.Buffer
	pack     *batchio.Buffer // the last of Messages, if short messages share it
	size     int
	Disabled bool // messages were dropped, so no attempt may follow
}

// MaxReplayBytes is the most bytes that a ReplayBuffer keeps, unless the call option
// MaxRetryRPCBufferSize sets another limit. The value is grpc-go's.
const MaxReplayBytes = 256 << 10

// Add keeps a message that will be sent. If the messages exceed limit bytes, Add drops them all.
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
		r.addCopy(b.Data)
	}
}

// addCopy copies a short message into a shared buffer, to save the memory of a buffer per message.
func (r *ReplayBuffer) addCopy(data []byte) {
	if r.pack == nil || cap(r.pack.Data)-len(r.pack.Data) < len(data) {
		size := len(data)
		if r.pack != nil {
			size = max(size, min(maxPackBytes, packGrowth*cap(r.pack.Data)))
		}
		r.pack = batchio.NewBuffer(size)
		r.pack.Data = r.pack.Data[:0]
		r.Messages = append(r.Messages, r.pack)
	}
	r.pack.Data = append(r.pack.Data, data...)
}

// Drop drops all messages. The ReplayBuffer keeps no later messages.
func (r *ReplayBuffer) Drop() {
	for _, b := range r.Messages {
		b.Release()
	}
	r.Messages, r.pack, r.Disabled = nil, nil, true
}
