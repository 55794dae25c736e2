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

// These options tune grpc-go at both ends. An option that is not set changes nothing.
const (
	codecKey   = "codec"
	poolKey    = "recv-pool"
	tiersKey   = "pool-tiers"
	windowKey  = "window"
	buffersKey = "buffers"

	// These are the codecs. They do not change the bytes on the wire.
	codecProto = "proto" // package proto with grpc-go's memory pool
	codecVT1   = "vt1"   // vtprotobuf's methods through the first codec interface
	codecVT2   = "vt2"   // vtprotobuf's methods through the second codec interface, with the memory pool

	// HTTP/2 allows no larger window (RFC 9113, section 6.9.1). Every connection has its own
	// buffers.
	maxWindowBytes = 1<<31 - 1
	maxBufferBytes = 16 << 20
)

func tuningOptions() []scenario.Option {
	return []scenario.Option{
		{Key: codecKey, Values: []string{codecProto, codecVT1, codecVT2}, Default: codecProto, Help: "proto: package proto; vt1, vt2: vtprotobuf through the first or the second codec interface, for messages that have its methods"},
		{Key: poolKey, Values: []string{"on", "off"}, Default: "on", Help: "off: received messages get fresh memory, as before grpc-go 1.66"},
		{Key: tiersKey, Parse: parseTiers, Help: "SIZES: buffers of grpc-go's memory pool, powers of two, as in 256/4KiB/16KiB/64KiB/1MiB, in place of 256/4KiB/16KiB/32KiB/1MiB; none: no pool"},
		{Key: windowKey, Parse: scenario.BytesUpTo(maxWindowBytes), Help: "SIZE: flow-control windows of a stream and of a connection, as in 16MiB, in place of estimated windows"},
		{Key: buffersKey, Parse: scenario.BytesUpTo(maxBufferBytes), Help: "SIZE: buffers of reads and writes, as in 256KiB"},
	}
}

// These texts describe defaults of grpc-go.
const (
	estimatedWindow = "65535, then the estimated bandwidth-delay product"
	defaultBuffer   = "32768"
)

type (
	serverOption = tuning.Option[grpc.ServerOption]
	clientOption = tuning.Option[grpc.DialOption]
)

// tunedOptions returns the options and settings that differ from grpc-go's defaults.
func tunedOptions(o *scenario.Options) (ends tuning.Ends[grpc.ServerOption, grpc.DialOption]) {
	add := func(value any, library, why string, server serverOption, client clientOption) {
		ends.Add(tuning.Setting{Value: fmt.Sprint(value), Default: library, Why: why}, server, client)
	}
	// addCall adds a call option that the client uses for all calls.
	addCall := func(value any, library, why string, server serverOption, name string, call grpc.CallOption) {
		add(value, library, why, server, clientOption{Name: name, Apply: grpc.WithDefaultCallOptions(call)})
	}
	ends.Client.Add(tuning.Setting{
		Side: tuning.Client, Name: "grpc.WithNoProxy", Value: "set",
		Default: "the environment's proxy", Why: "a proxy would be measured in place of the wire",
	}, grpc.WithNoProxy())
	addCall(stack.MaxMessageBytes, "4194304", stack.MessageLimitReason,
		serverOption{Name: "grpc.MaxRecvMsgSize", Apply: grpc.MaxRecvMsgSize(stack.MaxMessageBytes)},
		"grpc.MaxCallRecvMsgSize", grpc.MaxCallRecvMsgSize(stack.MaxMessageBytes))
	addCall(stack.MaxMessageBytes, "2147483647", stack.MessageLimitReason,
		serverOption{Name: "grpc.MaxSendMsgSize", Apply: grpc.MaxSendMsgSize(stack.MaxMessageBytes)},
		"grpc.MaxCallSendMsgSize", grpc.MaxCallSendMsgSize(stack.MaxMessageBytes))
	switch o.Text(codecKey) {
	case codecVT1:
		addCall("vtprotobuf", "package proto", stack.OptionReason(codecKey),
			serverOption{Name: "grpc.ForceServerCodec", Apply: grpc.ForceServerCodec(firstCodec{})}, "grpc.ForceCodec", grpc.ForceCodec(firstCodec{}))
	case codecVT2:
		addCall("vtprotobuf", "package proto", stack.OptionReason(codecKey),
			serverOption{Name: "grpc.ForceServerCodecV2", Apply: grpc.ForceServerCodecV2(newSecondCodec())}, "grpc.ForceCodecV2", grpc.ForceCodecV2(newSecondCodec()))
	}
	if !o.On(poolKey) {
		add("none", "mem.DefaultBufferPool", stack.OptionReason(poolKey),
			serverOption{Name: "grpc.experimental.BufferPool", Apply: experimental.BufferPool(mem.NopBufferPool{})},
			clientOption{Name: "grpc.experimental.WithBufferPool", Apply: experimental.WithBufferPool(mem.NopBufferPool{})})
	}
	if t := scenario.Value[*poolTiers](o, tiersKey); t != nil {
		const name = "grpc.experimental.SetDefaultBufferPool"
		add(t.text, "256/4KiB/16KiB/32KiB/1MiB", stack.OptionReason(tiersKey),
			serverOption{Name: name, Apply: experimental.BufferPool(t.pool)}, clientOption{Name: name, Apply: experimental.WithBufferPool(t.pool)})
	}
	if window := int32(scenario.Value[int](o, windowKey)); window > 0 {
		add(window, estimatedWindow, stack.OptionReason(windowKey),
			serverOption{Name: "grpc.StaticStreamWindowSize", Apply: grpc.StaticStreamWindowSize(window)},
			clientOption{Name: "grpc.WithStaticStreamWindowSize", Apply: grpc.WithStaticStreamWindowSize(window)})
		add(window, estimatedWindow, stack.OptionReason(windowKey),
			serverOption{Name: "grpc.StaticConnWindowSize", Apply: grpc.StaticConnWindowSize(window)},
			clientOption{Name: "grpc.WithStaticConnWindowSize", Apply: grpc.WithStaticConnWindowSize(window)})
	}
	if size := scenario.Value[int](o, buffersKey); size > 0 {
		add(size, defaultBuffer, stack.OptionReason(buffersKey),
			serverOption{Name: "grpc.ReadBufferSize", Apply: grpc.ReadBufferSize(size)},
			clientOption{Name: "grpc.WithReadBufferSize", Apply: grpc.WithReadBufferSize(size)})
		add(size, defaultBuffer, stack.OptionReason(buffersKey),
			serverOption{Name: "grpc.WriteBufferSize", Apply: grpc.WriteBufferSize(size)},
			clientOption{Name: "grpc.WithWriteBufferSize", Apply: grpc.WithWriteBufferSize(size)})
	}
	return ends
}

type poolTiers struct {
	text string
	pool mem.BufferPool
}

// noPool is the value of the option pool-tiers that selects no memory pool.
const noPool = "none"

func parseTiers(text string) (any, error) {
	if text == noPool {
		return &poolTiers{text, mem.NopBufferPool{}}, nil
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
	return &poolTiers{text, pool}, err
}

// makeDefault makes the pool the process's default, because the codec can use no other pool.
func (t *poolTiers) makeDefault() {
	if t != nil {
		experimental.SetDefaultBufferPool(t.pool)
	}
}

// fastMessage has the methods that vtprotobuf generates. Other messages, such as health checks and
// reflection, use package proto in every codec.
type fastMessage interface {
	SizeVT() int
	MarshalVT() ([]byte, error)
	MarshalToSizedBufferVT([]byte) (int, error)
	UnmarshalVT([]byte) error // appends to the content; it does not replace it
	Reset()
}

// resetMessage clears a message that may have been used before. A message with a vtprotobuf pool
// keeps its memory, because a caller that receives into it again no longer needs the old content.
func resetMessage(m fastMessage) {
	if pooled, is := m.(interface{ ResetVT() }); is {
		pooled.ResetVT()
		return
	}
	m.Reset()
}

// firstCodec uses vtprotobuf as its documentation recommends.
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
		resetMessage(m)
		return m.UnmarshalVT(data)
	case proto.Message:
		return proto.Unmarshal(data, m)
	}
	return notAMessage(v)
}

func notAMessage(v any) error { return fmt.Errorf("%T is not a protobuf message", v) }

// secondCodec uses vtprotobuf with grpc-go's memory pool. Messages without vtprotobuf's methods
// use the default codec.
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
	resetMessage(m)
	return m.UnmarshalVT(whole.ReadOnlyData())
}
