package counters

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"wirelab.dev/internal/perfevent"
	"wirelab.dev/internal/probe"
	"wirelab.dev/internal/record"
)

// events are what is counted. Each costs something at every switch of a thread.
var events = []perfevent.Event{
	perfevent.Cycles, perfevent.Instructions, perfevent.CacheReferences, perfevent.CacheMisses, perfevent.BranchMisses,
	perfevent.TaskClock, perfevent.Migrations,
}

const (
	period  = 50 * time.Millisecond
	columns = 3 // of each counter: value, enabled, running
)

// Watch counts the events of both ends.
type Watch struct {
	ends [2]end
}

// end is the process of an end.
type end struct {
	counters []*perfevent.Counter
	readings *probe.Readings
	missing  []string
}

// Start fails with host.ErrUnsupported where not a single event can be counted.
func Start() (*Watch, error) {
	own, err := perfevent.Open(perfevent.TaskClock, os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("count events: %w", err)
	}
	return &Watch{}, own.Close()
}

// Process says which process is at an end.
func (w *Watch) Process(at probe.End, pid int) error {
	e := &w.ends[at]
	if e.readings != nil {
		e.readings.Stop()
	}
	if err := e.close(); err != nil {
		return err
	}
	*e = end{}
	refused := map[string][]string{}
	var reasons []string
	for _, event := range events {
		counter, err := perfevent.Open(event, pid)
		if err != nil {
			reason := err.Error()
			if refused[reason] == nil {
				reasons = append(reasons, reason)
			}
			refused[reason] = append(refused[reason], event.Name)
			continue
		}
		e.counters = append(e.counters, counter)
	}
	for _, reason := range reasons {
		e.missing = append(e.missing, fmt.Sprintf("%s: %s", strings.Join(refused[reason], ", "), reason))
	}
	e.readings = probe.TakeReadings(columns*len(e.counters), period, func(into []uint64) error {
		for i, counter := range e.counters {
			count, err := counter.Read()
			if err != nil {
				return err
			}
			into[columns*i], into[columns*i+1], into[columns*i+2] = count.Value, count.EnabledNS, count.RunningNS
		}
		return nil
	})
	return nil
}

// Stop returns the counts of the window.
func (w *Watch) Stop(window probe.Measured) (sight probe.Sight, all error) {
	for at := range w.ends {
		e := &w.ends[at]
		if e.readings == nil {
			continue
		}
		e.readings.Stop()
		counts, err := e.readings.Between(window.Span)
		if err := errors.Join(err, e.close()); err != nil {
			all = errors.Join(all, err)
			continue
		}
		seen := sight.Of(probe.End(at))
		seen.Method, seen.Missing = "perf events", e.missing
		for i, counter := range e.counters {
			value, enabled, running := counts[columns*i], counts[columns*i+1], counts[columns*i+2]
			counted := record.Counter{Name: counter.Event.Name, Count: value}
			switch {
			case running <= 0:
				seen.Missing = append(seen.Missing, counter.Event.Name+": it never had a counter, as others had them all")
				continue
			case running < enabled:
				counted.Count, counted.Share = value*enabled/running, running/enabled
			}
			seen.Counters = append(seen.Counters, counted)
		}
	}
	return sight, all
}

func (e *end) close() (err error) {
	for _, counter := range e.counters {
		err = errors.Join(err, counter.Close())
	}
	return err
}
