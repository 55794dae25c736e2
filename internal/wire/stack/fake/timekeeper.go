package fake

import (
	"sync"
	"time"

	"wirelab.dev/internal/base/clock"
)

// timekeeper wakes calls at the instants they ask for, in the order they ask. A call
// that asks for an earlier instant than a call before it is woken late.
//
// To be exact to microseconds, the last part of a wait must spin. One goroutine spins
// for all calls, so that a hundred waiting calls use no more CPU time than one.
type timekeeper struct {
	queue chan wakeup
	ended chan struct{}
	work  sync.WaitGroup
}

type wakeup struct {
	instant int64
	ready   chan struct{}
}

// queueLength is the number of calls that the queue holds. Further calls wait for a
// place in it, in order too.
const queueLength = 1024

func startTimekeeper() *timekeeper {
	t := &timekeeper{queue: make(chan wakeup, queueLength), ended: make(chan struct{})}
	t.work.Go(t.run)
	return t
}

// stop ends the timekeeper. Calls that still wait are never woken.
func (t *timekeeper) stop() {
	close(t.ended)
	t.work.Wait()
}

// at returns a channel that is closed at the instant. It blocks while the queue is
// full, until stop.
func (t *timekeeper) at(instant int64) <-chan struct{} {
	ready := make(chan struct{})
	select {
	case t.queue <- wakeup{instant, ready}:
	case <-t.ended:
	}
	return ready
}

func (t *timekeeper) run() {
	for {
		select {
		case next := <-t.queue:
			if !t.await(next.instant) {
				return
			}
			close(next.ready)
		case <-t.ended:
			return
		}
	}
}

// await waits until the instant. It returns false if stop comes first.
func (t *timekeeper) await(instant int64) bool {
	// All but the end of a long wait can be interrupted.
	const end = 2 * time.Millisecond
	if long := time.Duration(instant-clock.Now()) - end; long > 0 {
		timer := time.NewTimer(long)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-t.ended:
			return false
		}
	}
	clock.Until(instant)
	return true
}
