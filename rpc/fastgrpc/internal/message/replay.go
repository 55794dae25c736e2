package message

import "wirelab.dev/rpc/batchio"

// ReplayBuffer keeps the messages sent on a stream while there may be another attempt.
type ReplayBuffer struct {
	Messages []*batchio.Buffer
	pack     *batchio.Buffer // the last of messages, if it holds copies of several short ones
	size     int
	Disabled bool // messages have been dropped, so the stream cannot be retried
}

// MaxReplay bounds the bytes that a stream keeps, unless MaxRetryRPCBufferSize says
// otherwise. The value is grpc-go's.
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

// copy keeps a short message with others, as a buffer each would cost far more.
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

// Drop drops the messages. None is kept any more.
func (r *ReplayBuffer) Drop() {
	for _, b := range r.Messages {
		b.Release()
	}
	r.Messages, r.pack, r.Disabled = nil, nil, true
}
