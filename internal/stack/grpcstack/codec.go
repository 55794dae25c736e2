package grpcstack

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/scenario"
)

// What grpc-go's users may tune without leaving it, at both ends. Nothing is tuned
// unless its option says so.
const (
	codecKey   = "codec"
	poolKey    = "recv-pool"
	windowKey  = "window"
	buffersKey = "buffers"
)

// The codecs. The bytes on the wire are the same.
const (
	codecProto = "proto" // package proto, over grpc-go's memory pool
	codecVT1   = "vt1"   // vtprotobuf's methods in the first codec interface
	codecVT2   = "vt2"   // the same in the second, over the memory pool
)

// What may be asked for: HTTP/2 has no larger window (RFC 9113, section 6.9.1), and
// every connection has its buffers.
const (
	maxWindowBytes = 1<<31 - 1
	maxBufferBytes = 16 << 20
)

func tuningOptions() []scenario.Option {
	return []scenario.Option{
		{Key: codecKey, Values: []string{codecProto, codecVT1, codecVT2}, Default: codecProto, Help: "proto: package proto; vt1, vt2: vtprotobuf through the first or the second codec interface, for messages that have its methods"},
		{Key: poolKey, Values: []string{"on", "off"}, Default: "on", Help: "off: what is received lies in fresh memory, as before grpc-go 1.66"},
		{Key: windowKey, Parse: scenario.BytesUpTo(maxWindowBytes), Help: "SIZE: flow-control windows of a stream and of a connection, as in 16MiB, in place of estimated ones"},
		{Key: buffersKey, Parse: scenario.BytesUpTo(maxBufferBytes), Help: "SIZE: buffers of reads and writes, as in 256KiB"},
	}
}

type tuning struct {
	codec           string
	freshMemory     bool
	window, buffers int // 0: grpc-go's own
}

func readTuning(o *scenario.Options) tuning {
	return tuning{
		codec: o.Text(codecKey), freshMemory: !o.On(poolKey),
		window: scenario.Value[int](o, windowKey), buffers: scenario.Value[int](o, buffersKey),
	}
}

func (l tuning) serverOptions() []grpc.ServerOption {
	var options []grpc.ServerOption
	switch l.codec {
	case codecVT1:
		options = append(options, grpc.ForceServerCodec(firstCodec{}))
	case codecVT2:
		options = append(options, grpc.ForceServerCodecV2(newSecondCodec()))
	}
	if l.freshMemory {
		options = append(options, experimental.BufferPool(mem.NopBufferPool{}))
	}
	if l.window > 0 {
		options = append(options, grpc.StaticStreamWindowSize(int32(l.window)), grpc.StaticConnWindowSize(int32(l.window)))
	}
	if l.buffers > 0 {
		options = append(options, grpc.ReadBufferSize(l.buffers), grpc.WriteBufferSize(l.buffers))
	}
	return options
}

func (l tuning) dialOptions() []grpc.DialOption {
	var options []grpc.DialOption
	switch l.codec {
	case codecVT1:
		options = append(options, grpc.WithDefaultCallOptions(grpc.ForceCodec(firstCodec{})))
	case codecVT2:
		options = append(options, grpc.WithDefaultCallOptions(grpc.ForceCodecV2(newSecondCodec())))
	}
	if l.freshMemory {
		options = append(options, experimental.WithBufferPool(mem.NopBufferPool{}))
	}
	if l.window > 0 {
		options = append(options, grpc.WithStaticStreamWindowSize(int32(l.window)), grpc.WithStaticConnWindowSize(int32(l.window)))
	}
	if l.buffers > 0 {
		options = append(options, grpc.WithReadBufferSize(l.buffers), grpc.WithWriteBufferSize(l.buffers))
	}
	return options
}

// fastMessage is what vtprotobuf generates. Messages without it, such as those of
// health and reflection, go through package proto in every codec.
type fastMessage interface {
	SizeVT() int
	MarshalVT() ([]byte, error)
	MarshalToSizedBufferVT([]byte) (int, error)
	UnmarshalVT([]byte) error // merges
	Reset()
}

// empty makes a message new that may have been used before. Where vtprotobuf
// generated a pool for its kind, the message keeps its memory for what is read next:
// who receives into a message again has let go of what was in it.
func empty(m fastMessage) {
	if pooled, is := m.(interface{ ResetVT() }); is {
		pooled.ResetVT()
		return
	}
	m.Reset()
}

// firstCodec is vtprotobuf as its manual shows it.
type firstCodec struct{}

var _ encoding.Codec = firstCodec{}

// Name is the default codec's: on the wire there is no difference.
func (firstCodec) Name() string { return grpcproto.Name }

// Marshal writes into fresh memory.
func (firstCodec) Marshal(v any) ([]byte, error) {
	switch m := v.(type) {
	case fastMessage:
		return m.MarshalVT()
	case proto.Message:
		return proto.Marshal(m)
	}
	return nil, notAMessage(v)
}

// Unmarshal copies what it keeps.
func (firstCodec) Unmarshal(data []byte, v any) error {
	switch m := v.(type) {
	case fastMessage:
		empty(m)
		return m.UnmarshalVT(data)
	case proto.Message:
		return proto.Unmarshal(data, m)
	}
	return notAMessage(v)
}

func notAMessage(v any) error { return fmt.Errorf("%T is not a protobuf message", v) }

// secondCodec is vtprotobuf over grpc-go's memory pool. What it does not know it
// leaves to the default codec.
type secondCodec struct {
	encoding.CodecV2
	pool mem.BufferPool
}

func newSecondCodec() secondCodec {
	return secondCodec{encoding.GetCodecV2(grpcproto.Name), mem.DefaultBufferPool()}
}

// Marshal writes long messages into pooled memory.
func (c secondCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, is := v.(fastMessage)
	if !is {
		return c.CodecV2.Marshal(v)
	}
	size := m.SizeVT()
	if mem.IsBelowBufferPoolingThreshold(size) {
		data, err := m.MarshalVT()
		return mem.BufferSlice{mem.SliceBuffer(data)}, err
	}
	data := c.pool.Get(size)
	if _, err := m.MarshalToSizedBufferVT((*data)[:size]); err != nil {
		c.pool.Put(data)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(data, c.pool)}, nil
}

// Unmarshal copies what it keeps, and gives the received memory back.
func (c secondCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, is := v.(fastMessage)
	if !is {
		return c.CodecV2.Unmarshal(data, v)
	}
	whole := data.MaterializeToBuffer(c.pool)
	defer whole.Free()
	empty(m)
	return m.UnmarshalVT(whole.ReadOnlyData())
}
