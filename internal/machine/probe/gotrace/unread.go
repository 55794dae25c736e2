package gotrace

import (
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

// unreadPeriod is the time between two counts. The kernel walks over all its connections for each.
const unreadPeriod = 25 * time.Millisecond

// An unreadWatch counts the requests that lie in the sockets of a service, because it has not read them yet.
type unreadWatch struct {
	stop   chan struct{}
	done   chan struct{}
	counts []unreadCount
	failed error
}

type unreadCount struct {
	at       int64
	requests int
}

func startUnreadWatch(port int) *unreadWatch {
	u := &unreadWatch{stop: make(chan struct{}), done: make(chan struct{})}
	go u.run(uint16(port)) // ends with stopWatching
	return u
}

func (u *unreadWatch) run(port uint16) {
	defer close(u.done)
	ticker := time.NewTicker(unreadPeriod)
	defer ticker.Stop()
	for u.failed == nil {
		select {
		case <-u.stop:
			return
		case <-ticker.C:
			one := unreadCount{at: clock.Now()}
			one.requests, u.failed = host.UnreadConnections(port)
			u.counts = append(u.counts, one)
		}
	}
}

// stopWatching returns the mean number of unread requests in a window; nil if it is not known.
func (u *unreadWatch) stopWatching(window probe.Span) *float64 {
	if u == nil {
		return nil
	}
	close(u.stop)
	<-u.done
	sum, count := 0.0, 0
	for _, one := range u.counts {
		if window.BeginNS <= one.at && one.at < window.EndNS {
			sum += float64(one.requests)
			count++
		}
	}
	if u.failed != nil || count == 0 {
		return nil
	}
	return new(sum / float64(count))
}
