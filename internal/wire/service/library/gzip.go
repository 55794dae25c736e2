package library

import (
	"compress/gzip"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc/encoding"
)

const gzipName = "gzip"

// registerGzip makes gzip known to the gRPC libraries of this process. It must run before the first
// call. The package google.golang.org/grpc/encoding/gzip would register gzip in each process, and
// every measured client and server would then announce it.
var registerGzip = sync.OnceFunc(func() {
	c := &gzipCompressor{}
	c.writers.New = func() any { return gzip.NewWriter(nil) }
	c.readers.New = func() any { return new(gzip.Reader) }
	encoding.RegisterCompressor(c)
})

type gzipCompressor struct{ writers, readers sync.Pool }

func (*gzipCompressor) Name() string { return gzipName }

func (c *gzipCompressor) Compress(to io.Writer) (io.WriteCloser, error) {
	w := c.writers.Get().(*gzip.Writer)
	w.Reset(to)
	return &pooledWriter{w, c}, nil
}

func (c *gzipCompressor) Decompress(from io.Reader) (io.Reader, error) {
	r := c.readers.Get().(*gzip.Reader)
	if err := r.Reset(from); err != nil {
		c.readers.Put(r)
		return nil, err
	}
	return &pooledReader{r, c}, nil
}

type pooledWriter struct {
	*gzip.Writer
	owner *gzipCompressor
}

func (w *pooledWriter) Close() error {
	defer w.owner.writers.Put(w.Writer)
	return w.Writer.Close()
}

type pooledReader struct {
	from  *gzip.Reader // nil after the end of the message
	owner *gzipCompressor
}

func (r *pooledReader) Read(p []byte) (int, error) {
	if r.from == nil {
		return 0, io.EOF
	}
	n, err := r.from.Read(p)
	if errors.Is(err, io.EOF) {
		r.owner.readers.Put(r.from)
		r.from = nil
	}
	return n, err
}
