package fleet

import (
	"math"
	"slices"
	"sync"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/live"
)

// watching makes one course of what the agents of one or more clients tell of it, which they do
// seldom, to be quiet.
type watching struct {
	window  time.Duration // 0: so many requests bound it
	settled chan struct{} // closed when all are
	stream  *merging

	guard   sync.Mutex // of what follows
	latest  []live.Progress
	opensNS int64 // when the window does
}

func newWatching(clients int, windowNS int64) *watching {
	return &watching{
		window: time.Duration(windowNS), settled: make(chan struct{}), stream: newMerging(),
		latest: make([]live.Progress, clients), opensNS: math.MaxInt64,
	}
}

// hear takes in how far a client has come.
func (w *watching) hear(client int, p live.Progress) {
	w.guard.Lock()
	defer w.guard.Unlock()
	w.latest[client] = p
	if w.opensNS == math.MaxInt64 && len(w.latest) == 1 && !p.Warming { // nobody tells it when
		w.opensNS = clock.Now() - int64(p.Fraction*float64(w.window))
	}
	if slices.ContainsFunc(w.latest, isUnsettled) {
		return
	}
	select {
	case <-w.settled:
	default:
		close(w.settled)
	}
}

func isUnsettled(p live.Progress) bool { return !p.Settled && p.Fraction == 0 }

// unsettled are the clients that have not said that their warm-up may end.
func (w *watching) unsettled() (clients []int) {
	w.guard.Lock()
	defer w.guard.Unlock()
	for i, p := range w.latest {
		if isUnsettled(p) {
			clients = append(clients, i)
		}
	}
	return clients
}

// opens says when the window does.
func (w *watching) opens(at int64) {
	w.guard.Lock()
	defer w.guard.Unlock()
	w.opensNS = at
}

// shownEvery is the time between two reports of progress.
const shownEvery = 250 * time.Millisecond

// tell reports how far all have come, some times a second until stop, which waits for the last
// report.
func (w *watching) tell(report func(live.Progress)) (stop func()) {
	if report == nil {
		return func() {}
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(shownEvery)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
				report(w.look(clock.Now()))
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(over)
		<-done
	})
}

// look sums up how far the clients have come.
func (w *watching) look(now int64) live.Progress {
	w.guard.Lock()
	defer w.guard.Unlock()
	all := live.Progress{Settled: true, Warming: now < w.opensNS, Live: w.stream.live()}
	for _, one := range w.latest {
		all.Paused = all.Paused || one.Paused
		all.Settled = all.Settled && one.Settled
		all.Done += one.Done
		all.Fraction += one.Fraction / float64(len(w.latest))
	}
	if all.Live != nil {
		all.Done = max(all.Done, all.Live.Total.Ended)
	}
	if !all.Warming && w.window > 0 && !all.Paused {
		all.Fraction = max(all.Fraction, min(1, float64(now-w.opensNS)/float64(w.window)))
	}
	return all
}
