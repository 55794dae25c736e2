package probe

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/perfevent"
)

// Events counts events of one process while it runs.
type Events struct {
	// Missing lists the events that cannot be counted, each reason once.
	Missing  []string
	counters []*perfevent.Counter
	readings *Readings
}

const (
	eventsPeriod = 50 * time.Millisecond
	eventColumns = 3 // of each counter: value, enabled, running
)

// CountEvents counts the events that can be counted. Events of the processor are counted in user
// space only if the kernel's part is refused.
func CountEvents(pid int, events []perfevent.Event) (*Events, error) {
	e := &Events{}
	type refusal struct{ name, reason string }
	var refused []refusal
	refuse := func(name string, err error) { refused = append(refused, refusal{name, err.Error()}) }
	for _, event := range events {
		counter, err := perfevent.Open(event, pid)
		if err != nil && event.IsProcessors() {
			inUserSpace, err2 := perfevent.Open(event.InUserSpace(), pid)
			if err2 == nil {
				refuse("the kernel's "+event.Name, err)
			}
			// This error is more specific: the first would report missing rights where the machine lacks the counter.
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
	e.readings = TakeReadings(eventColumns*len(e.counters), eventsPeriod, e.read)
	return e, nil
}

func (e *Events) read(into []uint64) error {
	for i, counter := range e.counters {
		count, err := counter.Read()
		if err != nil {
			return err
		}
		into[eventColumns*i], into[eventColumns*i+1], into[eventColumns*i+2] = count.Value, count.EnabledNS, count.RunningNS
	}
	return nil
}

// Counted returns the number of events that are counted.
func (e *Events) Counted() int { return len(e.counters) }

// Mark separates the counts before this call from the counts after it.
func (e *Events) Mark() { e.readings.Mark() }

// Stop returns the counts of the window.
func (e *Events) Stop(window Span) ([]record.Counter, error) {
	e.readings.Stop()
	counts, err := e.readings.Between(window)
	if err := errors.Join(err, e.close()); err != nil {
		return nil, err
	}
	var all []record.Counter
	for i, counter := range e.counters {
		value, enabled, running := counts[eventColumns*i], counts[eventColumns*i+1], counts[eventColumns*i+2]
		counted := record.Counter{Name: counter.Event.Name, Count: value}
		switch {
		case running <= 0:
			e.Missing = append(e.Missing, counter.Event.Name+": other events had all counters")
			continue
		case running < enabled:
			counted.Count, counted.Share = value*enabled/running, running/enabled
		}
		all = append(all, counted)
	}
	return all, nil
}

// Discard stops counting.
func (e *Events) Discard() error {
	e.readings.Stop()
	return e.close()
}

func (e *Events) close() (err error) {
	for _, counter := range e.counters {
		err = errors.Join(err, counter.Close())
	}
	return err
}
