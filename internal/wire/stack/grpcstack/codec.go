package grpcstack

import (
	"fmt"
	"math/bits"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
)

// The options tune grpc-go at both ends. Nothing is tuned without its option.
const (
	codecKey   = "codec"
	poolKey    = "recv-pool"
	tiersKey   = "pool-tiers"
	windowKey  = "window"
	buffersKey = "buffers"

	// The codecs. The bytes on the wire are the same.
	codecProto = "proto" // package proto, over grpc-go's memory pool
	codecVT1   = "vt1"   // vtprotobuf's methods in the first codec interface
	codecVT2   = "vt2"   // the same methods in the second interface, over the memory pool

	// HTTP/2 has no larger window (RFC 9113, section 6.9.1); every connection has its own buffers.
	maxWindowBytes = 1<<31 - 1
	maxBufferBytes = 16 << 20
)

func tuningOptions() []scenario.Option {
	return []scenario.Option{
		{Key: codecKey, Values: []string{codecProto, codecVT1, codecVT2}, Default: codecProto, Help: "proto: package proto; vt1, vt2: vtprotobuf through the first or the second codec interface, for messages that have its methods"},
		{Key: poolKey, Values: []string{"on", "off"}, Default: "on", Help: "off: received messages get fresh memory, as before grpc-go 1.66"},
		{Key: tiersKey, Parse: parseTiers, Help: "SIZES: buffers of grpc-go's memory pool, powers of two, as in 256/4KiB/16KiB/64KiB/1MiB, in place of 256/4KiB/16KiB/32KiB/1MiB; none: no pool"},
		{Key: windowKey, Parse: scenario.BytesUpTo(maxWindowBytes), Help: "SIZE: flow-control windows of a stream and of a connection, as in 16MiB, in place of estimated ones"},
		{Key: buffersKey, Parse: scenario.BytesUpTo(maxBufferBytes), Help: "SIZE: buffers of reads and writes, as in 256KiB"},
	}
}

// Defaults of grpc-go, in its own words.
const (
	estimated = "65535, then as the bandwidth-delay product is estimated"
	ioBuffer  = "32768"
)

type (
	serverOption = tuning.Option[grpc.ServerOption]
	clientOption = tuning.Option[grpc.DialOption]
)

// tuned lists the settings of both ends that are not grpc-go's default, with their options.
func tuned(o *scenario.Options) (ends tuning.Ends[grpc.ServerOption, grpc.DialOption]) {
	add := func(value any, library, why string, server serverOption, client clientOption) {
		ends.Add(tuning.Setting{Value: fmt.Sprint(value), Default: library, Why: why}, server, client)
	}
	// addCall adds an option that a client has for all of its calls.
	addCall := func(value any, library, why string, server serverOption, name string, call grpc.CallOption) {
		add(value, library, why, server, clientOption{Name: name, Apply: grpc.WithDefaultCallOptions(call)})
	}
	ends.Client.Add(tuning.Setting{
		Side: tuning.Client, Name: "grpc.WithNoProxy", Value: "set",
		Default: "the environment's proxy", Why: "a proxy would be measured in place of the wire",
	}, grpc.WithNoProxy())
	addCall(stack.MaxMessageBytes, "4194304", stack.WhyLimit,
		serverOption{Name: "grpc.MaxRecvMsgSize", Apply: grpc.MaxRecvMsgSize(stack.MaxMessageBytes)},
		"grpc.MaxCallRecvMsgSize", grpc.MaxCallRecvMsgSize(stack.MaxMessageBytes))
	addCall(stack.MaxMessageBytes, "2147483647", stack.WhyLimit,
		serverOption{Name: "grpc.MaxSendMsgSize", Apply: grpc.MaxSendMsgSize(stack.MaxMessageBytes)},
		"grpc.MaxCallSendMsgSize", grpc.MaxCallSendMsgSize(stack.MaxMessageBytes))
	switch o.Text(codecKey) {
	case codecVT1:
		addCall("vtprotobuf", "package proto", stack.WhyOption(codecKey),
			serverOption{Name: "grpc.ForceServerCodec", Apply: grpc.ForceServerCodec(firstCodec{})}, "grpc.ForceCodec", grpc.ForceCodec(firstCodec{}))
	case codecVT2:
		addCall("vtprotobuf", "package proto", stack.WhyOption(codecKey),
			serverOption{Name: "grpc.ForceServerCodecV2", Apply: grpc.ForceServerCodecV2(newSecondCodec())}, "grpc.ForceCodecV2", grpc.ForceCodecV2(newSecondCodec()))
	}
	if !o.On(poolKey) {
		add("none", "mem.DefaultBufferPool", stack.WhyOption(poolKey),
			serverOption{Name: "grpc.experimental.BufferPool", Apply: experimental.BufferPool(mem.NopBufferPool{})},
			clientOption{Name: "grpc.experimental.WithBufferPool", Apply: experimental.WithBufferPool(mem.NopBufferPool{})})
	}
	if t := scenario.Value[*tiers](o, tiersKey); t != nil {
		const name = "grpc.experimental.SetDefaultBufferPool"
		add(t.text, "256/4KiB/16KiB/32KiB/1MiB", stack.WhyOption(tiersKey),
			serverOption{Name: name, Apply: experimental.BufferPool(t.pool)}, clientOption{Name: name, Apply: experimental.WithBufferPool(t.pool)})
	}
	if window := int32(scenario.Value[int](o, windowKey)); window > 0 {
		add(window, estimated, stack.WhyOption(windowKey),
			serverOption{Name: "grpc.StaticStreamWindowSize", Apply: grpc.StaticStreamWindowSize(window)},
			clientOption{Name: "grpc.WithStaticStreamWindowSize", Apply: grpc.WithStaticStreamWindowSize(window)})
		add(window, estimated, stack.WhyOption(windowKey),
			serverOption{Name: "grpc.StaticConnWindowSize", Apply: grpc.StaticConnWindowSize(window)},
			clientOption{Name: "grpc.WithStaticConnWindowSize", Apply: grpc.WithStaticConnWindowSize(window)})
	}
	if size := scenario.Value[int](o, buffersKey); size > 0 {
		add(size, ioBuffer, stack.WhyOption(buffersKey),
			serverOption{Name: "grpc.ReadBufferSize", Apply: grpc.ReadBufferSize(size)},
			clientOption{Name: "grpc.WithReadBufferSize", Apply: grpc.WithReadBufferSize(size)})
		add(size, ioBuffer, stack.WhyOption(buffersKey),
			serverOption{Name: "grpc.WriteBufferSize", Apply: grpc.WriteBufferSize(size)},
			clientOption{Name: "grpc.WithWriteBufferSize", Apply: grpc.WithWriteBufferSize(size)})
	}
	return ends
}

type tiers struct {
	text string
	pool mem.BufferPool
}

// noTiers is the value of pool-tiers for a pool that keeps nothing.
const noTiers = "none"

func parseTiers(text string) (any, error) {
	if text == noTiers {
		return &tiers{text, mem.NopBufferPool{}}, nil
	}
	var exponents []uint8
	for word := range strings.SplitSeq(text, "/") {
		size, err := scenario.BytesUpTo(maxBufferBytes)(word)
		if err != nil {
			return nil, err
		}
		exponent := bits.TrailingZeros(uint(size.(int)))
		if size.(int) != 1<<exponent {
			return nil, fmt.Errorf("%s: want a power of two, or none for no pool", word)
		}
		exponents = append(exponents, uint8(exponent))
	}
	pool, err := mem.NewBinaryTieredBufferPool(exponents...)
	return &tiers{text, pool}, err
}

// use makes the pool the default of the whole process, because the codec takes no other.
func (t *tiers) use() {
	if t != nil {
		experimental.SetDefaultBufferPool(t.pool)
	}
}

// fastMessage has the methods that vtprotobuf generates. Messages without them, as of health and
// reflection, go through package proto in every codec.
type fastMessage interface {
	SizeVT() int
	MarshalVT() ([]byte, error)
	MarshalToSizedBufferVT([]byte) (int, error)
	UnmarshalVT([]byte) error // merges
	Reset()
}

// empty resets a message that may have been used before. A type with a pool of vtprotobuf keeps
// its memory: a caller that receives again has finished with the content.
func empty(m fastMessage) {
	if pooled, is := m.(interface{ ResetVT() }); is {
		pooled.ResetVT()
		return
	}
	m.Reset()
}

// firstCodec uses vtprotobuf as its manual shows.
type firstCodec struct{}

var _ encoding.Codec = firstCodec{}

// Name returns the default codec's name, because the bytes on the wire are the same.
func (firstCodec) Name() string { return grpcproto.Name }

func (firstCodec) Marshal(v any) ([]byte, error) {
	switch m := v.(type) {
	case fastMessage:
		return m.MarshalVT()
	case proto.Message:
		return proto.Marshal(m)
	}
	return nil, notAMessage(v)
}

// Unmarshal copies all data that the message keeps.
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

// secondCodec is vtprotobuf over grpc-go's memory pool. Other messages use the default codec.
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

// Unmarshal copies all data that the message keeps, and frees the received memory.
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
