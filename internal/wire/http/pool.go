package httpwire

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"wirelab.dev/internal/wire/conn"
)

// pool keeps a fixed number of connections and spreads requests over them in turn.
// net/http's own pool of HTTP/2 has one, and opens another only when the server's stream
// limit is reached; quic-go's has one.
type pool struct {
	connector
	slots conn.Turns[*slot]
}

// openPool opens the connections.
func openPool(ctx context.Context, plan ClientPlan, c connector) (*pool, error) {
	p := &pool{connector: c}
	for range max(plan.Connections, 1) {
		p.slots.All = append(p.slots.All, &slot{opening: make(chan struct{}, 1)})
	}
	return p, conn.OpenEach(ctx, len(p.slots.All), func(ctx context.Context, i int) error {
		opened, err := p.slots.All[i].connection(ctx, c)
		if err != nil {
			return err
		}
		return c.verify(ctx, opened)
	})
}

// RoundTrip implements http.RoundTripper.
func (p *pool) RoundTrip(request *http.Request) (*http.Response, error) {
	opened, err := p.slots.Next().connection(request.Context(), p.connector)
	if err != nil {
		return failRequest(request, err)
	}
	return opened.RoundTrip(request)
}

// slot holds one connection, and the next one when that has closed.
type slot struct {
	current atomic.Pointer[connection]
	opening chan struct{} // a lock of capacity 1: held while the connection is being opened
}

// connection returns the slot's connection. It opens a new one if there is none or it has
// failed.
func (s *slot) connection(ctx context.Context, c connector) (connection, error) {
	if current := s.current.Load(); current != nil && (*current).Err() == nil {
		return *current, nil
	}
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a connection: %w", c.waitError(ctx.Err()))
	}
	if current := s.current.Load(); current != nil && (*current).Err() == nil {
		return *current, nil // another request has opened it meanwhile
	}
	opened, err := c.connect(ctx)
	if err == nil {
		s.current.Store(&opened)
	}
	return opened, err
}
