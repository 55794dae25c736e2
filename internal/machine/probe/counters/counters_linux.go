// Package counters counts events of a server and its client while they run: events of the
// processor, if the machine has counters, and kernel events that no other probe counts.
// Switches, faults and CPU time are left out: every trial has them without a probe.
//
// An event that cannot be counted is left out, with the reason: a zero is a count.
package counters

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/perfevent"
	"wirelab.dev/internal/machine/probe"
)

// events lists the events that are counted. Each costs time at every switch of a thread.
var events = []perfevent.Event{
	perfevent.Cycles, perfevent.Instructions, perfevent.CacheReferences, perfevent.CacheMisses, perfevent.BranchMisses,
}

// Watch counts the events of both ends.
type Watch struct {
	coverage probe.Coverage
	ends     [2]end
}

// An end counts the events of one end's process.
type end struct {
	events     *probe.Events
	migrations *migrations // nil: counted as an event, or not available
}

// Start fails with host.ErrUnsupported if no event can be counted.
func Start() (probe.Watch, error) {
	own, err := watchEnd(os.Getpid())
	if err != nil {
		return nil, err
	}
	w := &Watch{coverage: own.coverage()}
	if err := own.discard(); err != nil {
		return nil, err
	}
	if w.coverage.Method == "" {
		return nil, fmt.Errorf("count events: %w: %v", host.ErrUnsupported, w.coverage.Missing)
	}
	return w, nil
}

// watchEnd counts the events of a process that can be counted.
func watchEnd(pid int) (e end, err error) {
	wanted := slices.Clone(events)
	// The scheduler counts migrations anyway. A clock event would only show whether the processor's
	// events work: every trial has the CPU time.
	if e.migrations = countMigrations(pid); e.migrations == nil {
		wanted = append(wanted, perfevent.Migrations)
	}
	if cycles, err := perfevent.Open(perfevent.Cycles, pid); err == nil {
		wanted = append(wanted, perfevent.TaskClock)
		if err := cycles.Close(); err != nil {
			return end{}, errors.Join(err, e.discard())
		}
	}
	if e.events, err = probe.CountEvents(pid, wanted); err != nil {
		return end{}, errors.Join(err, e.discard())
	}
	return e, nil
}

func (e *end) coverage() probe.Coverage {
	a := probe.Coverage{Missing: e.events.Missing}
	switch {
	case e.events.Counted() > 0 && e.migrations != nil:
		a.Method = "perf events, and procfs for cpu-migrations"
	case e.events.Counted() > 0:
		a.Method = "perf events"
	case e.migrations != nil:
		a.Method = "procfs, for cpu-migrations only"
	}
	return a
}

// Coverage returns how it counts.
func (w *Watch) Coverage() probe.Coverage { return w.coverage }

// Process sets the process at an end.
func (w *Watch) Process(at probe.End, pid int) (err error) {
	if err := w.ends[at].discard(); err != nil {
		return err
	}
	w.ends[at], err = watchEnd(pid)
	return err
}

// Stop returns the counts of the window.
func (w *Watch) Stop(window probe.Measured) (findings probe.Findings, all error) {
	for at := range w.ends {
		e := &w.ends[at]
		if e.events == nil {
			continue
		}
		seen := findings.Of(probe.End(at))
		var err error
		seen.Counters, err = e.events.Stop(window.Span)
		all = errors.Join(all, err)
		if e.migrations != nil {
			count, err := e.migrations.stop(window.Span)
			all = errors.Join(all, err)
			seen.Counters = append(seen.Counters, record.Counter{Name: perfevent.Migrations.Name, Count: count})
		}
		coverage := e.coverage()
		seen.Method, seen.Missing = coverage.Method, coverage.Missing
	}
	if all != nil {
		return probe.Findings{}, all
	}
	return findings, nil
}

func (e *end) discard() (err error) {
	if e.events != nil {
		err = e.events.Discard()
	}
	if e.migrations != nil {
		e.migrations.readings.Stop()
	}
	*e = end{}
	return err
}

// migrations reads the scheduler's own count of migrations, which everyone may read in a kernel
// with CONFIG_SCHED_DEBUG.
type migrations struct {
	pid      int
	threads  map[string]uint64 // by thread's file: a thread that ends takes its count with it
	readings *probe.Readings
}

// schedMigrations is the label of the line `se.nr_migrations : 12`, proc_sched_show_task of the kernel's
// kernel/sched/debug.c.
const schedMigrations = "\nse.nr_migrations"

// migrationsPeriod is long, since the kernel writes a page of text per thread.
const migrationsPeriod = 200 * time.Millisecond

// countMigrations returns nil if the kernel does not count migrations.
func countMigrations(pid int) *migrations {
	m := &migrations{pid: pid, threads: map[string]uint64{}}
	var values [1]uint64
	if m.read(values[:]) != nil || len(m.threads) == 0 {
		return nil
	}
	m.readings = probe.TakeReadings(1, migrationsPeriod, m.read)
	return m
}

func (m *migrations) read(into []uint64) error {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/sched", m.pid))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended meanwhile
		}
		if err != nil {
			return fmt.Errorf("count migrations: %w", err)
		}
		count, known := probe.Figure(text, schedMigrations)
		if !known {
			return errors.New("the scheduler's file has no se.nr_migrations")
		}
		m.threads[file] = uint64(count)
	}
	into[0] = 0
	for _, count := range m.threads {
		into[0] += count
	}
	return nil
}

func (m *migrations) stop(window probe.Span) (float64, error) {
	m.readings.Stop()
	grown, err := m.readings.Between(window)
	if err != nil {
		return 0, err
	}
	return grown[0], nil
}
