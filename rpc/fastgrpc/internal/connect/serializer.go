package connect

import "sync"

// A Serializer runs functions one at a time, in order, on a goroutine that exists only
// while there is something to run. Resolvers and balancers are called on one, because
// they expect calls that do not overlap and come without any lock held.
type Serializer struct {
	mu      sync.Mutex
	queue   []func()
	running chan struct{} // closed when the queue is empty; nil if it is
}

// Do queues a function.
func (s *Serializer) Do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, f)
	if s.running == nil {
		s.running = make(chan struct{})
		go s.run()
	}
}

func (s *Serializer) run() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 {
		f := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.mu.Unlock()
		f()
		s.mu.Lock()
	}
	s.queue = nil
	close(s.running)
	s.running = nil
}

// Wait returns when all functions have run.
func (s *Serializer) Wait() {
	s.mu.Lock()
	running := s.running
	s.mu.Unlock()
	if running != nil {
		<-running
	}
}
