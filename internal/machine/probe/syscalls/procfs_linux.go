package syscalls

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

// Procfs takes the sums that the kernel keeps of each process.
type Procfs struct {
	coverage probe.Coverage
	ends     [2]*probe.Readings
}

// sums lists the lines of /proc/PID/io and the calls that they count: proc_pid_io(5). Calls that
// only sockets have, such as sendto, are in neither.
var sums = []struct{ line, name string }{
	{"syscr", "reads (read, readv, pread64 …)"},
	{"syscw", "writes (write, writev, pwrite64 …)"},
}

const sumsPeriod = 50 * time.Millisecond

// startProcfs fails with host.ErrUnsupported if the kernel does not count.
func startProcfs() (*Procfs, error) {
	if _, err := readSums(os.Getpid()); err != nil {
		return nil, fmt.Errorf("%w: %w; it takes a kernel with CONFIG_TASK_IO_ACCOUNTING", host.ErrUnsupported, err)
	}
	return &Procfs{coverage: probe.Coverage{Method: "/proc/PID/io: reads and writes in all, sendto and recvmsg not among them"}}, nil
}

// Coverage returns how it counts.
func (p *Procfs) Coverage() probe.Coverage { return p.coverage }

func (p *Procfs) lacks(format string, why error) {
	p.coverage.Missing = append(p.coverage.Missing, fmt.Errorf(format, why).Error())
}

// Process sets the process at an end.
func (p *Procfs) Process(end probe.End, pid int) error {
	if p.ends[end] != nil {
		p.ends[end].Stop()
	}
	last := make([]uint64, len(sums)) // when the process has ended
	p.ends[end] = probe.TakeReadings(len(sums), sumsPeriod, func(into []uint64) error {
		switch now, err := readSums(pid); {
		case err == nil:
			copy(last, now)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH):
			return err
		}
		copy(into, last)
		return nil
	})
	return nil
}

// Stop returns the sums of the window.
func (p *Procfs) Stop(window probe.Measured) (findings probe.Findings, all error) {
	for at, readings := range p.ends {
		if readings == nil {
			continue
		}
		readings.Stop()
		grown, err := readings.Between(window.Span)
		if err != nil {
			all = errors.Join(all, err)
			continue
		}
		seen := findings.Of(probe.End(at))
		seen.Method, seen.Missing = p.coverage.Method, slices.Clone(p.coverage.Missing)
		for i, sum := range sums {
			if count := int64(math.Round(grown[i])); count > 0 {
				seen.Syscalls = append(seen.Syscalls, record.Syscall{Name: sum.name, Count: count})
			}
		}
		sortCalls(seen.Syscalls)
	}
	return findings, all
}

func readSums(pid int) ([]uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return nil, fmt.Errorf("count reads and writes: %w", err)
	}
	return parseSums(text)
}

func parseSums(text []byte) ([]uint64, error) {
	found := make([]uint64, len(sums))
	lines := bufio.NewScanner(bytes.NewReader(text))
	for seen := 0; lines.Scan(); {
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		for i, sum := range sums {
			if sum.line != string(name) {
				continue
			}
			var err error
			if found[i], err = strconv.ParseUint(string(value), 10, 64); err != nil {
				return nil, fmt.Errorf("parse %q: %w", lines.Text(), err)
			}
			if seen++; seen == len(sums) {
				return found, nil
			}
		}
	}
	return nil, errors.New("its io file lacks syscr or syscw")
}
