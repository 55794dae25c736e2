package rpccall

import (
	"iter"
	"slices"
	"sync"
	"time"
)

// Workers run the calls of a server on reused goroutines. A worker takes calls from the queue until
// the queue is empty, so most calls need neither a new stack nor a wake-up.
//
// A slow handler never delays another call: a worker that takes a call while more are queued wakes
// another worker. Usually the other worker finds an empty queue, which costs little per batch.
//
// Running handlers on the reader goroutine would need a watchdog. It was measured to gain nothing
// with 50 callers. With one caller, it gained 6 % of a call's CPU time.
type Workers[C any] struct {
	// Serve runs a call. It is set before the first Push.
	Serve func(C)

	mu     sync.Mutex
	queue  []C
	head   int
	idle   []chan struct{} // one channel per idle worker: a value wakes the worker, closing ends it
	waking bool            // a worker was woken and has not taken a call yet
	closed bool
	active sync.WaitGroup

	trimming  bool // trim will run
	leastIdle int  // if trimming, the least number of idle workers since the last trim
}

const (
	// maxIdleWorkers is the largest number of idle goroutines that are kept for the next burst.
	maxIdleWorkers = 512
	// keptIdleWorkers is the number of them that are kept for ever. The others end when they
	// have been idle for idleWorkerTime, or a little longer.
	keptIdleWorkers = 16
	idleWorkerTime  = time.Second
)

// Push queues calls in order.
func (w *Workers[C]) Push(calls []C) {
	if len(calls) == 0 {
		return
	}
	w.mu.Lock()
	if w.head > len(w.queue)/2 {
		w.queue = w.queue[:copy(w.queue, w.queue[w.head:])]
		w.head = 0
	}
	w.queue = append(w.queue, calls...)
	w.wakeWorker()
	w.mu.Unlock()
}

func (w *Workers[C]) wakeWorker() {
	if w.waking || w.head == len(w.queue) {
		return
	}
	w.waking = true
	if n := len(w.idle); n > 0 {
		next := w.idle[n-1]
		w.idle = w.idle[:n-1]
		w.leastIdle = min(w.leastIdle, n-1)
		next <- struct{}{}
		return
	}
	w.active.Add(1)
	go w.run(make(chan struct{}, 1))
}

func (w *Workers[C]) run(wake chan struct{}) {
	defer w.active.Done()
	w.mu.Lock()
	for {
		w.waking = false
		for w.head < len(w.queue) {
			call := w.pop()
			w.wakeWorker()
			w.mu.Unlock()
			w.Serve(call)
			w.mu.Lock()
		}
		if w.closed || len(w.idle) >= maxIdleWorkers {
			w.mu.Unlock()
			return
		}
		w.idle = append(w.idle, wake)
		if len(w.idle) > keptIdleWorkers && !w.trimming {
			w.trimLater()
		}
		w.mu.Unlock()
		if _, woken := <-wake; !woken {
			return
		}
		w.mu.Lock()
	}
}

// trimLater makes trim run after idleWorkerTime. One timer serves all workers, and only while more
// than keptIdleWorkers are idle.
func (w *Workers[C]) trimLater() {
	w.trimming, w.leastIdle = true, len(w.idle)
	time.AfterFunc(idleWorkerTime, w.trim)
}

// trim ends the workers that have been idle since the last trim, except keptIdleWorkers. These are
// the first ones of the list, because the last one is always woken first.
func (w *Workers[C]) trim() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trimming = false
	if n := min(w.leastIdle, len(w.idle)-keptIdleWorkers); n > 0 {
		w.endIdle(n)
	}
	if len(w.idle) > keptIdleWorkers {
		w.trimLater()
	}
}

// endIdle ends the first n idle workers.
func (w *Workers[C]) endIdle(n int) {
	for _, idle := range w.idle[:n] {
		close(idle)
	}
	w.idle = slices.Delete(w.idle, 0, n)
}

func (w *Workers[C]) pop() C {
	call := w.queue[w.head]
	var none C
	w.queue[w.head] = none
	w.head++
	if w.head == len(w.queue) {
		w.queue, w.head = w.queue[:0], 0
	}
	return call
}

// Close ends idle workers now, and busy workers after their calls.
func (w *Workers[C]) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.endIdle(len(w.idle))
}

// Wait waits until all workers have ended. Close must be called first.
func (w *Workers[C]) Wait() { w.active.Wait() }

// A Queue holds a call's unread messages, oldest first. Most calls have only one message, for which
// the Queue itself has memory. Do not copy a Queue unless it is empty.
type Queue[M any] struct {
	items []M
	first [1]M
}

// Len returns the number of messages.
func (q *Queue[M]) Len() int { return len(q.items) }

// Put adds a message.
func (q *Queue[M]) Put(m M) {
	if q.items == nil {
		q.items = q.first[:0]
	}
	q.items = append(q.items, m)
}

// Take removes the oldest message. ok is false if there is none.
func (q *Queue[M]) Take() (m M, ok bool) {
	if len(q.items) == 0 {
		return m, false
	}
	var none M
	m, q.items[0] = q.items[0], none
	if q.items = q.items[1:]; len(q.items) == 0 {
		q.items, q.first[0] = nil, none // first may hold a copy of a message that moved to a longer queue
	}
	return m, true
}

// First returns the oldest message, which the caller may change. There must be one.
func (q *Queue[M]) First() *M { return &q.items[0] }

// All returns the messages, oldest first, which the caller may change.
func (q *Queue[M]) All() iter.Seq[*M] {
	return func(yield func(*M) bool) {
		for i := range q.items {
			if !yield(&q.items[i]) {
				return
			}
		}
	}
}

// Last returns the newest message, which the caller may change, or nil if there is none.
func (q *Queue[M]) Last() *M {
	if len(q.items) == 0 {
		return nil
	}
	return &q.items[len(q.items)-1]
}

// WakeOne wakes one goroutine that receives from c, now or later. c needs a buffer of one element.
func WakeOne(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// CloseOnce closes c unless it is closed. The caller holds the lock that guards c.
func CloseOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
