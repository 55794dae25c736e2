package fake

import (
	"sync"
	"time"

	"wirelab.dev/internal/clock"
)

// timekeeper wakes calls at the instants they ask for, in the order they ask.
// Who asks for an earlier instant than someone before is woken late.
//
// To be exact to microseconds one must spin for the last of the way. One
// goroutine spins for all, so that a hundred waiting calls cost no more CPU
// than one.
type timekeeper struct {
	queue chan appointment
	ended chan struct{}
	work  sync.WaitGroup
}

type appointment struct {
	instant int64
	come    chan struct{}
}

// queueLength is how many calls can wait without waiting to be put in line.
// The rest stand in line for the line, in order too.
const queueLength = 1024

func startTimekeeper() *timekeeper {
	t := &timekeeper{queue: make(chan appointment, queueLength), ended: make(chan struct{})}
	t.work.Go(t.run)
	return t
}

// stop abandons who still waits.
func (t *timekeeper) stop() {
	close(t.ended)
	t.work.Wait()
}

// at returns what is closed at the instant. It blocks while the line is full,
// and gives up at stop.
func (t *timekeeper) at(instant int64) <-chan struct{} {
	come := make(chan struct{})
	select {
	case t.queue <- appointment{instant, come}:
	case <-t.ended:
	}
	return come
}

func (t *timekeeper) run() {
	for {
		select {
		case next := <-t.queue:
			if !t.await(next.instant) {
				return
			}
			close(next.come)
		case <-t.ended:
			return
		}
	}
}

// await returns false where stop comes first.
func (t *timekeeper) await(instant int64) bool {
	// Of a long wait, all but the end can be broken off.
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
