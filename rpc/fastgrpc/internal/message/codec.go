package message

import (
	"bytes"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
)

// A Codec encodes messages into buffers that start with free bytes for the gRPC prefix. It decodes
// messages without their prefix.
type Codec interface {
	// Encode returns a buffer whose first wire.PrefixLen bytes are free for the prefix.
	Encode(v any) (*batchio.Buffer, error)
	// Decode decodes a message. If alias is true, v's bytes fields may point into data.
	Decode(data []byte, v any, alias bool) error
	// Name returns the content-subtype.
	Name() string
}

// ProtoCodec encodes protobuf messages directly into the buffer that is sent.
type ProtoCodec struct {
	VT bool // use vtprotobuf's methods, if a message has them
}

// Name returns the content-subtype.
func (ProtoCodec) Name() string { return grpcproto.Name }

// Encode uses vtprotobuf's method if VT is set and the message has that method.
func (c ProtoCodec) Encode(v any) (*batchio.Buffer, error) {
	return rpccall.Marshal(v, rpccall.MarshalOptions{Prefix: wire.PrefixLen, VT: c.VT})
}

// Decode uses vtprotobuf's method, after a check of the depth, if VT is set and v has that method.
func (c ProtoCodec) Decode(data []byte, v any, alias bool) error {
	m, err := rpccall.Message(v)
	if err != nil {
		return err
	}
	if c.VT {
		var read func([]byte) error
		if m, ok := v.(interface{ UnmarshalVT([]byte) error }); ok {
			read = m.UnmarshalVT
		}
		if m, ok := v.(interface{ UnmarshalVTUnsafe([]byte) error }); ok && alias {
			read = m.UnmarshalVTUnsafe // does not copy strings and bytes fields
		}
		if read != nil {
			if err := checkDepth(data, m.ProtoReflect().Descriptor()); err != nil {
				return err
			}
			proto.Reset(m) // ResetVT would reuse memory that the program may still use
			return read(data)
		}
	}
	if alias {
		return rpccall.UnmarshalAliased(data, m)
	}
	return proto.Unmarshal(data, m)
}

// CodecV2 adapts a registered or forced encoding.CodecV2.
type CodecV2 struct{ encoding.CodecV2 }

// Encode copies the parts of the encoded message into one buffer.
func (c CodecV2) Encode(v any) (*batchio.Buffer, error) {
	parts, err := c.Marshal(v)
	if err != nil {
		return nil, err
	}
	b := batchio.NewBuffer(wire.PrefixLen + parts.Len())
	parts.CopyTo(b.Data[wire.PrefixLen:])
	parts.Free()
	return b, nil
}

// Decode copies data unless the message may alias it.
func (c CodecV2) Decode(data []byte, v any, alias bool) error {
	if alias {
		return c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, v)
	}
	// Copy data, because v may point into it, and data is reused after Decode.
	copied := mem.BufferSlice{mem.Copy(data, mem.DefaultBufferPool())}
	defer copied.Free()
	return c.Unmarshal(copied, v)
}

// CodecV1 adapts a registered or forced encoding.Codec.
type CodecV1 struct{ encoding.Codec }

// Encode copies the encoded message into a buffer.
func (c CodecV1) Encode(v any) (*batchio.Buffer, error) {
	data, err := c.Marshal(v)
	if err != nil {
		return nil, err
	}
	b := batchio.NewBuffer(wire.PrefixLen + len(data))
	copy(b.Data[wire.PrefixLen:], data)
	return b, nil
}

// Decode copies data unless the message may alias it.
func (c CodecV1) Decode(data []byte, v any, alias bool) error {
	if !alias {
		data = append([]byte(nil), data...)
	}
	return c.Unmarshal(data, v)
}

// CodecFor returns the codec for a content-subtype, or nil if there is none. The subtype "" means
// proto. If the program has registered its own proto codec, CodecFor returns that codec.
func CodecFor(subtype string, vt bool) Codec {
	if subtype == "" {
		subtype = grpcproto.Name
	}
	if v2 := encoding.GetCodecV2(subtype); v2 != nil {
		if subtype == grpcproto.Name && isGRPCGoProtoCodec(v2) {
			return ProtoCodec{vt}
		}
		return CodecV2{v2}
	}
	if v1 := encoding.GetCodec(subtype); v1 != nil {
		return CodecV1{v1}
	}
	return nil
}

// isGRPCGoProtoCodec reports whether c is grpc-go's own proto codec, whose type is not exported.
func isGRPCGoProtoCodec(c encoding.CodecV2) bool {
	t := reflect.TypeOf(c)
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "google.golang.org/grpc/encoding/proto"
}

// CompressorName returns a compressor's name, or "" if c is nil.
func CompressorName(c encoding.Compressor) string {
	if c == nil {
		return ""
	}
	return c.Name()
}

// Encode marshals v, compresses it if compressor is not nil, and sets the prefix. If v is nil, the
// message is empty, as in grpc-go.
func Encode(c Codec, compressor encoding.Compressor, v any, limit int) (*batchio.Buffer, error) {
	var b *batchio.Buffer
	var err error
	if v == nil {
		b = batchio.NewBuffer(wire.PrefixLen)
	} else if b, err = c.Encode(v); err != nil {
		return nil, status.Errorf(codes.Internal, "fastgrpc: cannot encode a message: %v", err)
	}
	plain := len(b.Data) - wire.PrefixLen
	compressed := compressor != nil && plain > 0
	if compressed {
		packed, err := compress(compressor, b.Data[wire.PrefixLen:])
		b.Release()
		if err != nil {
			return nil, status.Errorf(codes.Internal, "fastgrpc: cannot compress a message: %v", err)
		}
		b = packed
	}
	if err := checkSendSize(len(b.Data)-wire.PrefixLen, limit); err != nil {
		b.Release()
		return nil, err
	}
	wire.PutPrefix(b.Data, compressed)
	b.Plain = plain
	return b, nil
}

// checkSendSize returns an error if the size exceeds the limit or the prefix's range.
func checkSendSize(size, limit int) error {
	switch {
	case size > limit:
		return rpccall.TooLargeError("fastgrpc: trying to send message", size, limit)
	case uint64(size) > math.MaxUint32:
		return status.Errorf(codes.ResourceExhausted, "fastgrpc: a message has %d bytes, but gRPC allows at most %d: send several messages", size, uint32(math.MaxUint32))
	}
	return nil
}

// DecodeOptions say how a message is decoded.
type DecodeOptions struct {
	Limit int            // the most bytes that a message may have after decompression
	Alias *AliasedMemory // keeps the memory for v's bytes fields; nil to copy them
}

// Decode decompresses m, if it is compressed, and unmarshals it into v. It releases m's memory, or
// passes that memory to o.Alias if v's bytes fields may point into it.
func Decode(c Codec, compressor encoding.Compressor, m *Message, v any, o DecodeOptions) (Sizes, error) {
	size := Sizes{Packed: len(m.Data)}
	if m.Compressed {
		if compressor == nil {
			m.Release()
			return size, status.Error(codes.Internal, "fastgrpc: received a compressed message, but the field grpc-encoding is missing or names a compressor that is not registered")
		}
		unpacked, err := decompress(compressor, m.Data, o.Limit)
		m.Release()
		if err != nil {
			return size, err
		}
		*m = Message{Data: unpacked.Data, Owner: unpacked}
	}
	if o.Alias != nil {
		o.Alias.takeOver(m)
	}
	size.Plain = len(m.Data)
	err := c.Decode(m.Data, v, o.Alias != nil)
	if o.Alias == nil {
		m.Release()
	}
	if err != nil {
		return size, status.Errorf(codes.Internal, "fastgrpc: cannot unmarshal a message: %v", err)
	}
	return size, nil
}

// AcceptedCompressors returns the value of the field grpc-accept-encoding: the common names, used's
// name and the names in more, without those that are not registered. It needs its own list of
// common names, because grpc-go does not export the registered names.
func AcceptedCompressors(more []string, used encoding.Compressor) string {
	var names []string
	for _, name := range append([]string{"gzip", "zstd", "snappy", "deflate", "br", "lz4", CompressorName(used)}, more...) {
		if encoding.GetCompressor(name) != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// compress returns a buffer with free bytes for the prefix, followed by the compressed data.
func compress(c encoding.Compressor, data []byte) (*batchio.Buffer, error) {
	b := batchio.NewBuffer(wire.PrefixLen + len(data))
	out := bytes.NewBuffer(b.Data[:wire.PrefixLen])
	w, err := c.Compress(out)
	if err == nil {
		if _, err = w.Write(data); err == nil {
			err = w.Close()
		}
	}
	if err != nil {
		b.Release()
		return nil, err
	}
	b.SetData(out.Bytes())
	return b, nil
}

// decompress returns the decompressed data. It stops with an error after limit bytes, because a
// small message could otherwise fill all memory.
func decompress(c encoding.Compressor, data []byte, limit int) (*batchio.Buffer, error) {
	r, err := c.Decompress(bytes.NewReader(data))
	if err != nil {
		return nil, status.Errorf(codes.Internal, "fastgrpc: cannot decompress a message: %v", err)
	}
	room := max(limit, limit+1, 1) // one byte above the limit shows that a message is too large
	b := batchio.NewBuffer(min(room, max(4*len(data), 512)))
	filled := 0
	for {
		n, err := r.Read(b.Data[filled:])
		filled += n
		if filled > limit {
			b.Release()
			return nil, rpccall.TooLargeError("fastgrpc: received message after decompression", filled, limit)
		}
		if err == io.EOF {
			b.Data = b.Data[:filled]
			return b, nil
		}
		if err != nil {
			b.Release()
			return nil, status.Errorf(codes.Internal, "fastgrpc: cannot decompress a message: %v", err)
		}
		if filled == len(b.Data) {
			grown := batchio.NewBuffer(min(room, 2*filled))
			copy(grown.Data, b.Data)
			b.Release()
			b = grown
		}
	}
}
