package chanpool

import (
	"context"
	"sync"

	"google.golang.org/grpc"
)

// NewStream begins a streaming call. Generated code calls it.
func (p *Pool) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	m, err := p.acquire(p.now())
	if err != nil {
		return nil, err
	}
	inner, err := m.channel.NewStream(ctx, desc, method, opts...)
	if err != nil {
		p.noteFailure(m, p.now(), err)
		m.release()
		return nil, err
	}
	s := &stream{ClientStream: inner, pool: p, member: m, single: !desc.ServerStreams}
	stop := context.AfterFunc(ctx, s.release)
	s.stop = stop
	return s, nil
}

// A stream counts as a call of its channel until it ends: with an error, with its last
// message, or with its context.
type stream struct {
	grpc.ClientStream
	pool   *Pool
	member *member
	single bool // it receives one message
	once   sync.Once
	stop   func() bool
}

// RecvMsg receives a message.
func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case err != nil:
		s.pool.noteFailure(s.member, s.pool.now(), err)
		s.ended()
	case s.single:
		s.ended()
	}
	if err == nil && !s.pool.fixed() {
		s.pool.messages.Add(1)
		s.pool.checkEpoch(s.pool.now())
	}
	return err
}

func (s *stream) ended() {
	s.stop()
	s.release()
}

func (s *stream) release() { s.once.Do(s.member.release) }
