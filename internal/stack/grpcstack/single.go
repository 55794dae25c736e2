package grpcstack

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"wirelab.dev/internal/stack"
)

// single is a client for one call, which begins now.
func (l *line) single(ctx context.Context) (stack.Client, error) {
	timer := &firstByte{begin: time.Now(), dialer: l.dialer}
	return l.connect(ctx, l.target.Address, grpc.WithStatsHandler(timer))
}

// firstByte takes the time until the answer begins. What comes before it on the
// connection are HTTP/2's own frames.
type firstByte struct {
	begin  time.Time
	dialer *stack.Dialer
	once   sync.Once
}

var _ stats.Handler = (*firstByte)(nil)

func (f *firstByte) HandleRPC(_ context.Context, what stats.RPCStats) {
	switch what.(type) {
	case *stats.InHeader, *stats.InTrailer:
		f.once.Do(func() { f.dialer.FirstByte(time.Since(f.begin)) })
	}
}

func (*firstByte) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*firstByte) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*firstByte) HandleConn(context.Context, stats.ConnStats)                       {}
