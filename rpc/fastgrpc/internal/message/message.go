package message

import (
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
