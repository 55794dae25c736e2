package message

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
)

// AcceptedCompressors returns the value of grpc-accept-encoding: the common names, more
// names, and the one that the call itself uses, as far as they are registered. Grpc-go
// does not export its list.
func AcceptedCompressors(more []string, used encoding.Compressor) string {
	var names []string
	for _, name := range append([]string{"gzip", "zstd", "snappy", "deflate", "br", "lz4", CompressorName(used)}, more...) {
		if encoding.GetCompressor(name) != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// compress returns a buffer with room for the prefix, followed by compressed data.
func compress(c encoding.Compressor, data []byte) (*batchio.Buffer, error) {
	b := batchio.NewBuffer(wire.PrefixLen + len(data))
	out := &appendWriter{b.Data[:wire.PrefixLen]}
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
	b.SetData(out.data)
	return b, nil
}

// decompress returns the decompressed data, or an error above limit bytes: a small
// message must not expand into any amount of memory.
func decompress(c encoding.Compressor, data []byte, limit int) (*batchio.Buffer, error) {
	r, err := c.Decompress(bytes.NewReader(data))
	if err != nil {
		return nil, status.Errorf(codes.Internal, "fastgrpc: decompress: %v", err)
	}
	room := max(limit, limit+1, 1) // one byte more tells a message that is too large
	b := batchio.NewBuffer(min(room, max(4*len(data), 512)))
	filled := 0
	for {
		n, err := r.Read(b.Data[filled:])
		filled += n
		if filled > limit {
			b.Release()
			return nil, rpccall.TooLarge("fastgrpc: received message after decompression", filled, limit)
		}
		if err == io.EOF {
			b.Data = b.Data[:filled]
			return b, nil
		}
		if err != nil {
			b.Release()
			return nil, status.Errorf(codes.Internal, "fastgrpc: decompress: %v", err)
		}
		if filled == len(b.Data) {
			grown := batchio.NewBuffer(min(room, 2*filled))
			copy(grown.Data, b.Data)
			b.Release()
			b = grown
		}
	}
}

type appendWriter struct{ data []byte }

func (w *appendWriter) Write(p []byte) (int, error) {
	w.data = append(w.data, p...)
	return len(p), nil
}
