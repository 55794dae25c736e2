package probe

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/sum"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/perfevent"
)

// An EventCounter counts perf events of one process over time.
type EventCounter struct {
	// Missing lists the events that cannot be counted. It has one entry per reason.
	Missing  []string
	counters []*perfevent.Counter
	readings *Readings
}

const (
	eventsPeriod     = 50 * time.Millisecond
	valuesPerCounter = 3 // number of fields of perfevent.Count
)

// CountEvents starts to count all events that the kernel allows. If the kernel does not allow
// counting a processor event in kernel code, it counts the event in user space only.
func CountEvents(pid int, events []perfevent.Event) (*EventCounter, error) {
	e := &EventCounter{}
	type refusal struct{ name, reason string }
	var refused []refusal
	refuse := func(name string, err error) { refused = append(refused, refusal{name, err.Error()}) }
	for _, event := range events {
		counter, err := perfevent.OpenCounter(event, pid)
		if err != nil && event.IsProcessorEvent() {
			inUserSpace, err2 := perfevent.OpenCounter(event.UserSpaceOnly(), pid)
			if err2 == nil {
				refuse("the kernel's "+event.Name, err)
			}
			// The second error is more exact. The first error reports missing rights even if the
			// machine cannot count the event at all.
			counter, err = inUserSpace, err2
		}
		switch {
		case errors.Is(err, host.ErrUnsupported):
			refuse(event.Name, err)
		case err != nil:
			return nil, errors.Join(fmt.Errorf("count %s: %w", event.Name, err), e.close())
		default:
			e.counters = append(e.counters, counter)
		}
	}
	for _, same := range lists.GroupBy(refused, func(r refusal) string { return r.reason }) {
		names := lists.Map(same, func(r refusal) string { return r.name })
		e.Missing = append(e.Missing, strings.Join(names, ", ")+": "+same[0].reason)
	}
	e.readings = StartReadings(valuesPerCounter*len(e.counters), eventsPeriod, e.read)
	return e, nil
}

func (e *EventCounter) read(into []uint64) error {
	for i, counter := range e.counters {
		count, err := counter.Read()
		if err != nil {
			return err
		}
		into[valuesPerCounter*i], into[valuesPerCounter*i+1], into[valuesPerCounter*i+2] = count.Value, count.EnabledNS, count.RunningNS
	}
	return nil
}

// CountedEvents returns the number of events that are counted.
func (e *EventCounter) CountedEvents() int { return len(e.counters) }

// ReadNow reads the counters now, which separates the counts before and after this call.
func (e *EventCounter) ReadNow() { e.readings.ReadNow() }

// Stop returns the number of events in the window.
func (e *EventCounter) Stop(window Span) ([]record.Counter, error) {
	e.readings.Stop()
	counts, err := e.readings.Between(window)
	if err := errors.Join(err, e.close()); err != nil {
		return nil, err
	}
	var all []record.Counter
	for i, counter := range e.counters {
		value, enabled, running := counts[valuesPerCounter*i], counts[valuesPerCounter*i+1], counts[valuesPerCounter*i+2]
		counted := record.Counter{Name: counter.Event.Name, Count: value}
		switch {
		case running <= 0:
			e.Missing = append(e.Missing, counter.Event.Name+": other events used all of the processor's counters")
			continue
		case running < enabled:
			counted.Count, counted.Share = value*enabled/running, running/enabled
		}
		all = append(all, counted)
	}
	return all, nil
}

// StopEvents returns the summed numbers of events of several processes in the window, and the events
// that could not be counted.
func StopEvents(processes []*EventCounter, window Span) (sums []record.Counter, missing []string, all error) {
	for _, events := range processes {
		counts, err := events.Stop(window)
		all = errors.Join(all, err)
		for _, reason := range events.Missing {
			missing = lists.AppendNew(missing, reason)
		}
		sums = sum.ByKey(sums, counts, func(c record.Counter) string { return c.Name })
	}
	return sums, missing, all
}

// Discard stops counting without a result.
func (e *EventCounter) Discard() error {
	e.readings.Stop()
	return e.close()
}

func (e *EventCounter) close() (err error) {
	for _, counter := range e.counters {
		err = errors.Join(err, counter.Close())
	}
	return err
}
