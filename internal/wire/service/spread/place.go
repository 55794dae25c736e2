package spread

import (
	"cmp"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/wire/service"
)

// A place is an address with its client.
type place struct {
	address string
	client  atomic.Pointer[service.Client] // nil until a connection could be opened
	opening atomic.Pointer[chan struct{}]  // closed when the client has been opened, or could not be; nil while nothing is opened
	opened  atomic.Int64                   // connections that the client was to open at first
	calls   atomic.Int64                   // calls under way
	left    atomic.Bool                    // the place gets no further calls
	idle    chan struct{}                  // receives after the last call at a place that left
	pause   atomic.Int64                   // length of the pause after the last failure, in ns; 0 after a good call
	until   atomic.Int64                   // the instant at which the pause ends

	guard   sync.Mutex
	failed  int64  // attempts to connect that failed
	example string // the error of the first one
	last    error
}

// A pause after a failed attempt is as long as that of a caller whose service does not listen.
const minPause, maxPause = int64(10 * time.Millisecond), int64(time.Second)

// fail counts a failed attempt to connect, and begins a pause.
func (p *place) fail(err error) {
	p.rest(min(max(2*p.pause.Load(), minPause), maxPause))
	p.guard.Lock()
	defer p.guard.Unlock()
	p.last = err
	if p.failed++; p.failed == 1 {
		p.example = err.Error()
	}
}

func (p *place) lastError() error {
	p.guard.Lock()
	defer p.guard.Unlock()
	return cmp.Or(p.last, errors.New("a connection to "+p.address+" is not open yet"))
}

// rest begins a pause, in which the place gets no calls if another one accepts them.
func (p *place) rest(pause int64) {
	p.pause.Store(pause)
	p.until.Store(clock.Now() + pause)
}

// connections returns how many connections the place opened at first.
func (p *place) connections() int { return int(p.opened.Load()) }

func (p *place) isDown(now int64) bool {
	return p.opening.Load() != nil || p.pause.Load() > 0 && now < p.until.Load()
}

func (p *place) describe() record.Address {
	p.guard.Lock()
	defer p.guard.Unlock()
	return record.Address{Address: p.address, Unreached: p.failed, Example: p.example}
}

// enter begins a call at a place. It reports false if the place has left: then its client may be closed.
func (p *place) enter() bool {
	p.calls.Add(1)
	if !p.left.Load() {
		return true
	}
	p.exit()
	return false
}

func (p *place) exit() {
	if p.calls.Add(-1) > 0 || !p.left.Load() {
		return
	}
	select {
	case p.idle <- struct{}{}:
	default:
	}
}
