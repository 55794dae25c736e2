package chanpool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrClosed is returned by calls after Close.
var ErrClosed = status.Error(codes.Canceled, "chanpool: the pool is closed")

// A Pool spreads calls over several channels. Its methods may be called concurrently.
type Pool struct {
	opts  options
	dial  func(context.Context) (Channel, error)
	ctx   context.Context // of dial; Close ends it
	end   context.CancelFunc
	began time.Time

	inUse atomic.Pointer[[]*member] // channels that get new calls; never empty before Close
	next  atomic.Uint32             // equal channels get calls in turn
	// The current epoch. It began at begin, and may end at ends.
	begin, ends, calls, latency, messages atomic.Int64

	mu        sync.Mutex
	members   []*member // all open members; calls go only to the first ones, see setInUse
	leaving   map[*member]struct{}
	decider   decider
	decisions []Decision // the last 16 decisions
	dialing   bool
	closed    bool
	failures  []error        // errors of closing channels
	running   sync.WaitGroup // retires channels
}

var _ grpc.ClientConnInterface = (*Pool)(nil)

// New returns a pool. It opens the first channels with dial, and calls dial again when the pool
// grows. All channels must lead to the same service. dial need not wait for a connection. Its context
// ends with Close, and not when dial returns.
func New(dial func(context.Context) (Channel, error), opts ...Option) (*Pool, error) {
	p := &Pool{opts: options{min: 1, max: 16, epoch: 50 * time.Millisecond}, dial: dial, began: time.Now(), leaving: map[*member]struct{}{}}
	for _, o := range opts {
		o(&p.opts)
	}
	switch {
	case dial == nil:
		return nil, errors.New("chanpool: New(nil): want a function that opens a channel")
	case p.opts.min < 1 || p.opts.max < p.opts.min:
		return nil, fmt.Errorf("chanpool: Min(%d), Max(%d): want Min of at least 1, and Max of at least Min", p.opts.min, p.opts.max)
	case p.opts.epoch <= 0:
		return nil, fmt.Errorf("chanpool: Epoch(%v): want more than 0", p.opts.epoch)
	}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.decider = decider{min: p.opts.min, max: p.opts.max, size: p.opts.min}
	for range p.opts.min {
		m, err := p.openMember()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("chanpool: open a channel: %w", err), p.Close())
		}
		p.members = append(p.members, m)
	}
	p.setInUse(len(p.members))
	return p, nil
}

func (p *Pool) openMember() (*member, error) {
	channel, err := p.dial(p.ctx)
	if err == nil && channel == nil {
		err = errors.New("the function that opens channels returned none, and no error")
	}
	if err != nil {
		return nil, err
	}
	m := &member{channel: channel}
	m.close = sync.OnceFunc(func() { // called when the last call ends, or by Close
		err := channel.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.leaving, m)
		if err != nil {
			p.failures = append(p.failures, err)
		}
	})
	return m, nil
}

// now returns the time since the pool was made, in nanoseconds.
func (p *Pool) now() int64 { return int64(time.Since(p.began)) }

// acquire begins a call on the channel with the fewest calls in flight.
func (p *Pool) acquire(now int64) (*member, error) {
	for {
		members := p.inUse.Load()
		if members == nil {
			return nil, ErrClosed
		}
		if m := leastLoaded(*members, now, p.next.Add(1)); m.acquire() {
			m.calls.Add(1)
			return m, nil
		}
	}
}

// Invoke makes a unary call. Generated code calls it.
func (p *Pool) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	began := p.now()
	m, err := p.acquire(began)
	if err != nil {
		return err
	}
	defer m.release() // also if an interceptor panics
	err = m.channel.Invoke(ctx, method, args, reply, opts...)
	ended := p.now()
	p.noteFailure(m, err)
	if p.isFixed() {
		return err
	}
	if began >= p.begin.Load() {
		p.calls.Add(1)
		p.latency.Add(ended - began)
	}
	p.checkEpoch(ended)
	return err
}

// NewStream begins a streaming call. Generated code calls it.
func (p *Pool) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	m, err := p.acquire(p.now())
	if err != nil {
		return nil, err
	}
	inner, err := m.channel.NewStream(ctx, desc, method, opts...)
	if err != nil {
		p.noteFailure(m, err)
		m.release()
		return nil, err
	}
	s := &stream{ClientStream: inner, pool: p, member: m, single: !desc.ServerStreams, release: sync.OnceFunc(m.release)}
	s.stop = context.AfterFunc(ctx, s.release)
	return s, nil
}

// A stream counts as a call of its channel until the stream ends: with an error, with its last
// message, or with its context.
type stream struct {
	grpc.ClientStream
	pool    *Pool
	member  *member
	single  bool // the response has only one message
	release func()
	stop    func() bool
}

// RecvMsg receives a message.
func (s *stream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.pool.noteFailure(s.member, err)
	if err != nil || s.single {
		s.stop()
		s.release()
	}
	if err == nil && !s.pool.isFixed() {
		s.pool.messages.Add(1)
		s.pool.checkEpoch(s.pool.now())
	}
	return err
}

func (p *Pool) isFixed() bool { return p.opts.min == p.opts.max }

func (p *Pool) noteFailure(m *member, err error) {
	if status.Code(err) == codes.Unavailable {
		m.avoid.Store(p.now() + int64(avoidFor))
	}
}

// checkEpoch ends the epoch if its time is over, unless another goroutine is ending the epoch.
func (p *Pool) checkEpoch(now int64) {
	if now < p.ends.Load() || !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	if p.closed || p.dialing || now < p.ends.Load() {
		return
	}
	e := epoch{
		took: time.Duration(now - p.begin.Load()), calls: p.calls.Load(), latency: time.Duration(p.latency.Load()),
		messages: p.messages.Load(), inFlight: p.inFlight(),
	}
	if e.calls < minCalls && e.messages < minCalls && e.took < maxEpochs*p.opts.epoch {
		p.ends.Store(now + int64(p.opts.epoch)) // too few calls yet
		return
	}
	use, ended := p.decider.next(p.began.Add(time.Duration(now)), e)
	p.record(ended)
	p.resize()
	if !p.dialing {
		p.setInUse(use)
	}
	p.startEpoch(now, e)
}

// maxEpochs limits how long an epoch waits for enough calls: ten times its usual length.
const maxEpochs = 10

// startEpoch begins an epoch, which takes at least ten times as long as a call of the last epoch.
func (p *Pool) startEpoch(now int64, last epoch) {
	length := p.opts.epoch
	if last.calls > 0 {
		const most = 20 // the longest epoch, as a multiple of the usual length
		length = min(max(length, 10*last.latency/time.Duration(last.calls)), most*length)
	}
	p.calls.Store(0)
	p.latency.Store(0)
	p.messages.Store(0)
	p.begin.Store(now)
	p.ends.Store(now + int64(length))
}

// inFlight returns the calls and streams in flight, with the lock held.
func (p *Pool) inFlight() (total int64) {
	for _, m := range p.members {
		total += m.inFlight.Load()
	}
	return total
}

// setInUse makes new calls go to the first n channels.
func (p *Pool) setInUse(n int) {
	members := slices.Clone(p.members[:min(n, len(p.members))])
	p.inUse.Store(&members)
}

// resize changes the number of channels to the one that the decider wants. It retires channels, or
// starts a goroutine that opens channels.
func (p *Pool) resize() {
	want := p.decider.open()
	if missing := want - len(p.members); missing > 0 {
		p.dialing = true
		go p.grow(missing) // ends with the last dial
		return
	}
	if want < len(p.members) {
		gone := p.members[want:]
		p.members = slices.Clone(p.members[:want])
		p.setInUse(min(want, p.decider.inUse()))
		p.retire(gone)
	}
}

// retire retires channels. The lock is held, but a new goroutine closes the channels without it.
func (p *Pool) retire(gone []*member) {
	for _, m := range gone {
		p.leaving[m] = struct{}{}
	}
	p.running.Go(func() {
		for _, m := range gone {
			m.retire()
		}
	})
}

// grow opens channels for a trial. If a channel cannot be opened, grow ends the trial.
func (p *Pool) grow(missing int) {
	var opened []*member
	var failed error
	for range missing {
		m, err := p.openMember()
		if err != nil {
			failed = err
			break
		}
		if c, ok := m.channel.(interface{ Connect() }); ok {
			c.Connect() // otherwise the first calls would wait
		}
		opened = append(opened, m)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dialing = false
	now := p.now()
	if p.closed { // Close did not wait, because a dial may take for ever
		go func() { // ends when the channels are closed
			for _, m := range opened {
				m.close()
			}
		}()
		return
	}
	if failed != nil {
		p.retire(opened)
		p.decider.giveUp(p.began.Add(time.Duration(now)))
		p.record(&Decision{At: time.Now(), From: p.decider.size, To: p.decider.size, Why: fmt.Sprintf("could not open another channel: %v", failed)})
	} else {
		p.members = append(p.members, opened...)
	}
	p.setInUse(p.decider.inUse())
	p.startEpoch(now, epoch{})
}

// record keeps and logs a decision. d may be nil.
func (p *Pool) record(d *Decision) {
	if d == nil {
		return
	}
	const most = 16
	p.decisions = append(p.decisions, *d)
	p.decisions = p.decisions[max(0, len(p.decisions)-most):]
	if log := p.opts.logger; log != nil {
		log.Info("chanpool: "+d.Why, "from", d.From, "to", d.To, "gain", d.Gain, "pairs", d.Pairs)
	}
}

// Close closes all channels, which ends all calls. It ends the context of a channel that is being opened,
// but does not wait for it: the channel is closed once it is open.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return ErrClosed
	}
	p.closed = true
	p.end()
	p.inUse.Store(nil)
	for _, m := range p.members {
		p.leaving[m] = struct{}{}
	}
	p.members = nil
	p.mu.Unlock()
	p.running.Wait()
	p.mu.Lock()
	last := slices.Collect(maps.Keys(p.leaving))
	p.mu.Unlock()
	for _, m := range last {
		m.retired.Store(true)
		m.close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.failures...)
}

// An Option configures a pool.
type Option func(*options)

type options struct {
	min, max int
	epoch    time.Duration
	logger   *slog.Logger
}

// Min sets the least number of open channels, 1 by default.
func Min(n int) Option { return func(o *options) { o.min = n } }

// Max sets the largest number of open channels. The default is 16, because servers and proxies
// accept 16 connections from one client.
func Max(n int) Option { return func(o *options) { o.max = n } }

// Fixed keeps n channels open. The pool then measures nothing.
func Fixed(n int) Option { return func(o *options) { o.min, o.max = n, n } }

// Epoch sets how long a trial uses one number of channels before it changes to its other number:
// 50 ms by default, and longer if calls take longer. With shorter epochs, the pool decides sooner,
// but makes more wrong decisions.
func Epoch(d time.Duration) Option { return func(o *options) { o.epoch = d } }

// Logger sets the logger, which gets a line for each decision. By default nothing is logged.
func Logger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }
