package counters

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"wirelab.dev/internal/machine/probe"
)

// migrations holds the migrations that the scheduler itself counts, which everyone may read in
// a kernel with CONFIG_SCHED_DEBUG.
type migrations struct {
	pid      int
	threads  map[string]uint64 // by file: threads may end, and their counts with them
	readings *probe.Readings
}

// migrationsPeriod is long, since the kernel writes a page of text a thread.
const migrationsPeriod = 200 * time.Millisecond

// countMigrations returns nil if the kernel does not count.
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
			continue // it ended meanwhile
		}
		if err != nil {
			return fmt.Errorf("count migrations: %w", err)
		}
		if m.threads[file], err = parseMigrations(text); err != nil {
			return err
		}
	}
	into[0] = 0
	for _, count := range m.threads {
		into[0] += count
	}
	return nil
}

// parseMigrations reads the line `se.nr_migrations : 12`, proc_sched_show_task of the
// kernel's kernel/sched/debug.c.
func parseMigrations(text []byte) (uint64, error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		name, value, found := bytes.Cut(lines.Bytes(), []byte(":"))
		if found && string(bytes.TrimSpace(name)) == "se.nr_migrations" {
			return strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 64)
		}
	}
	return 0, errors.New("the scheduler's file has no se.nr_migrations")
}

func (m *migrations) stop(window probe.Span) (float64, error) {
	m.readings.Stop()
	grown, err := m.readings.Between(window)
	if err != nil {
		return 0, err
	}
	return grown[0], nil
}
