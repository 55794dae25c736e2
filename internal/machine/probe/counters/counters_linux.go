// Package counters counts events of a server and its client: processor events, such as cache
// misses, and kernel events that no other probe counts. It does not count context switches, page
// faults and CPU time, because every trial measures them without a probe.
//
// If an event cannot be counted, the result contains the reason instead of a zero.
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

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/perfevent"
	"wirelab.dev/internal/machine/probe"
)

// countedEvents lists the counted processor events. Each counter slows context switches.
var countedEvents = []perfevent.Event{
	perfevent.Cycles, perfevent.Instructions, perfevent.CacheReferences, perfevent.CacheMisses, perfevent.BranchMisses,
}

// A Watch counts the events of the server and the client.
type Watch struct {
	coverage probe.Coverage
	ends     [2][]processCounter
}

// A processCounter counts the events of a process of the server or the client.
type processCounter struct {
	events     *probe.EventCounter
	migrations *migrationCounter // nil if the scheduler does not publish its count
}

// Start returns a Watch. It fails with host.ErrUnsupported if no event can be counted.
func Start() (probe.Watch, error) {
	own, err := countProcessEvents(os.Getpid())
	if err != nil {
		return nil, err
	}
	w := &Watch{coverage: own.coverage()}
	if err := own.discard(); err != nil {
		return nil, err
	}
	if w.coverage.Method == "" {
		return nil, fmt.Errorf("count processor and kernel events: %w: %v", host.ErrUnsupported, w.coverage.Missing)
	}
	return w, nil
}

func countProcessEvents(pid int) (e processCounter, err error) {
	wanted := slices.Clone(countedEvents)
	// A perf event for migrations is needed only if the scheduler's count is not available. The
	// task clock is counted only for comparison with the processor's events.
	if e.migrations = countMigrations(pid); e.migrations == nil {
		wanted = append(wanted, perfevent.Migrations)
	}
	if cycles, err := perfevent.OpenCounter(perfevent.Cycles, pid); err == nil {
		wanted = append(wanted, perfevent.TaskClock)
		if err := cycles.Close(); err != nil {
			return processCounter{}, errors.Join(err, e.discard())
		}
	}
	if e.events, err = probe.CountEvents(pid, wanted); err != nil {
		return processCounter{}, errors.Join(err, e.discard())
	}
	return e, nil
}

func (e *processCounter) coverage() probe.Coverage {
	a := probe.Coverage{Missing: e.events.Missing}
	if e.migrations != nil {
		a.Unfollowed = "their cpu-migrations: the kernel publishes them for each process, and only the first processes are read"
	}
	switch {
	case e.events.CountedEvents() > 0 && e.migrations != nil:
		a.Method = "perf events, and procfs for cpu-migrations"
	case e.events.CountedEvents() > 0:
		a.Method = "perf events"
	case e.migrations != nil:
		a.Method = "procfs, for cpu-migrations only"
	}
	return a
}

// Coverage returns how events are counted, and which events cannot be counted.
func (w *Watch) Coverage() probe.Coverage { return w.coverage }

// AddProcess starts to count the events of a process of the server or the client, and of the processes
// that it starts.
func (w *Watch) AddProcess(at probe.End, pid int) error {
	counter, err := countProcessEvents(pid)
	if err == nil {
		w.ends[at] = append(w.ends[at], counter)
	}
	return err
}

// Stop returns the number of events in the window.
func (w *Watch) Stop(window probe.MeasuredWindow) (findings probe.Findings, all error) {
	for at, processes := range w.ends {
		if len(processes) == 0 {
			continue
		}
		seen := findings.ForEnd(probe.End(at))
		var err error
		seen.Counters, seen.Missing, err = probe.StopEvents(lists.Map(processes, func(p processCounter) *probe.EventCounter { return p.events }), window.Span)
		all = errors.Join(all, err)
		for _, p := range processes {
			seen.Method = p.coverage().Method
			if p.migrations == nil {
				continue
			}
			count, err := p.migrations.stop(window.Span)
			all = errors.Join(all, err)
			sum := lists.FindOrAdd(&seen.Counters, record.Counter{Name: perfevent.Migrations.Name}, func(c record.Counter) bool { return c.Name == perfevent.Migrations.Name })
			sum.Count += count
		}
	}
	if all != nil {
		return probe.Findings{}, all
	}
	return findings, nil
}

func (e *processCounter) discard() (err error) {
	if e.events != nil {
		err = e.events.Discard()
	}
	if e.migrations != nil {
		e.migrations.readings.Stop()
	}
	return err
}

// A migrationCounter reads the scheduler's count of migrations. It needs no rights, but a kernel
// with CONFIG_SCHED_DEBUG.
type migrationCounter struct {
	pid      int
	threads  map[string]uint64 // latest count of each thread's file, kept after the thread ends
	readings *probe.Readings
}

// migrationsLabel begins the line `se.nr_migrations : 12` (proc_sched_show_task in
// kernel/sched/debug.c of the kernel).
const migrationsLabel = "\nse.nr_migrations"

// migrationsPeriod is long, because the kernel writes a page of text per thread at each reading.
const migrationsPeriod = 200 * time.Millisecond

// countMigrations returns a counter, or nil if the kernel does not count migrations.
func countMigrations(pid int) *migrationCounter {
	m := &migrationCounter{pid: pid, threads: map[string]uint64{}}
	var values [1]uint64
	if m.read(values[:]) != nil || len(m.threads) == 0 {
		return nil
	}
	m.readings = probe.StartReadings(1, migrationsPeriod, m.read)
	return m
}

func (m *migrationCounter) read(into []uint64) error {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/sched", m.pid))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			return fmt.Errorf("count migrations: %w", err)
		}
		count, known := probe.NumberAfterLabel(text, migrationsLabel)
		if !known {
			return fmt.Errorf("count migrations: %s has no line se.nr_migrations", file)
		}
		m.threads[file] = uint64(count)
	}
	into[0] = 0
	for _, count := range m.threads {
		into[0] += count
	}
	return nil
}

func (m *migrationCounter) stop(window probe.Span) (float64, error) {
	m.readings.Stop()
	grown, err := m.readings.Between(window)
	if err != nil {
		return 0, err
	}
	return grown[0], nil
}
