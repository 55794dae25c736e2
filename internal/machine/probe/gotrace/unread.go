package gotrace

import (
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

// unreadPeriod is the time between two counts. The kernel walks over all its connections for each.
const unreadPeriod = 25 * time.Millisecond

// An unreadWatch counts the connections of a service in whose sockets requests lie unread, or answers that the
// client has not acknowledged.
type unreadWatch struct {
	stop   chan struct{}
	done   chan struct{}
	counts []unreadCount
	failed error
}

type unreadCount struct {
	at                     int64
	unread, unacknowledged int
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
			one.unread, one.unacknowledged, u.failed = host.QueuedConnections(port)
			u.counts = append(u.counts, one)
		}
	}
}

// stopWatching returns the mean numbers of both in a window; nil if they are not known.
func (u *unreadWatch) stopWatching(window probe.Span) (unread, unacknowledged *float64) {
	if u == nil {
		return nil, nil
	}
	close(u.stop)
	<-u.done
	in, out, count := 0.0, 0.0, 0.0
	for _, one := range u.counts {
		if window.BeginNS <= one.at && one.at < window.EndNS {
			in, out, count = in+float64(one.unread), out+float64(one.unacknowledged), count+1
		}
	}
	if u.failed != nil || count == 0 {
		return nil, nil
	}
	return new(in / count), new(out / count)
}
