package fastgrpc

import (
	"bytes"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

// registeredCompressors returns the value of grpc-accept-encoding. Grpc-go does not
// export its list of compressors, so this looks up the common names.
func registeredCompressors() string {
	var names []string
	for _, name := range []string{"gzip", "zstd", "snappy", "deflate", "br", "lz4"} {
		if encoding.GetCompressor(name) != nil {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// compress returns a buffer with room for the prefix, followed by compressed data.
func compress(c encoding.Compressor, data []byte) (*buffer, error) {
	b := newBuffer(prefixLen + len(data))
	out := &appendWriter{b.data[:prefixLen]}
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
	b.setData(out.data)
	return b, nil
}

// decompress returns the decompressed data, or an error above limit bytes: a small
// message must not expand into any amount of memory.
func decompress(c encoding.Compressor, data []byte, limit int) (*buffer, error) {
	r, err := c.Decompress(bytes.NewReader(data))
	if err != nil {
		return nil, status.Errorf(codes.Internal, "fastgrpc: decompress: %v", err)
	}
	room := max(limit, limit+1, 1) // one byte more tells a message that is too large
	b := newBuffer(min(room, max(4*len(data), 512)))
	filled := 0
	for {
		n, err := r.Read(b.data[filled:])
		filled += n
		if filled > limit {
			b.Release()
			return nil, tooLarge("received message after decompression", filled, limit)
		}
		if err == io.EOF {
			b.data = b.data[:filled]
			return b, nil
		}
		if err != nil {
			b.Release()
			return nil, status.Errorf(codes.Internal, "fastgrpc: decompress: %v", err)
		}
		if filled == len(b.data) {
			grown := newBuffer(min(room, 2*filled))
			copy(grown.data, b.data)
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
