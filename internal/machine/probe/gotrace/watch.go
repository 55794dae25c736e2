package gotrace

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

var _ probe.Watch = (*Watch)(nil)

// A Watch reads the traces that both workers of a trial write.
type Watch struct {
	folder  string
	cpus    *cpuWatch // nil if the machine does not allow it
	missing []string
}

// Start makes a folder for the traces of a trial. without is why a better way to divide calls does
// not work here; nil if there is none.
func Start(without error) (*Watch, error) {
	w := &Watch{}
	if without != nil {
		w.missing = append(w.missing, without.Error())
	}
	var err error
	if w.cpus, err = startCPUWatch(); errors.Is(err, host.ErrUnsupported) {
		w.missing = append(w.missing, fmt.Sprintf("waits for CPUs that other programs have: %v", err))
	} else if err != nil {
		return nil, err
	}
	w.folder, err = os.MkdirTemp("", "wirelab-traces-")
	return w, err
}

// TraceFile returns the path for the recorder of an end.
func (w *Watch) TraceFile(end probe.End) string {
	return filepath.Join(w.folder, [...]string{probe.Server: "server", probe.Client: "client"}[end])
}

// AddProcess starts to watch when a worker has no CPU. The worker traces itself.
func (w *Watch) AddProcess(end probe.End, pid int) error {
	if w.cpus == nil {
		return nil
	}
	return w.cpus.addProcess(end, pid)
}

// Coverage returns how the probe works.
func (w *Watch) Coverage() probe.Coverage {
	return probe.Coverage{
		Method:  fmt.Sprintf("execution traces of both workers, for %d of every %d ms", turnNS/1e6, cycleNS/1e6),
		Missing: w.missing,
	}
}

// Stop divides the calls of the window into stages, and removes the traces.
func (w *Watch) Stop(m probe.MeasuredWindow) (findings probe.Findings, err error) {
	defer func() { err = cmp.Or(err, os.RemoveAll(w.folder)) }()
	var cpus [2]cpuTimes
	if w.cpus != nil {
		if cpus, err = w.cpus.stopWatching(); err != nil {
			return findings, err
		}
	}
	if m.EndNS <= m.BeginNS {
		return findings, errors.New("no window was measured")
	}
	how := w.Coverage()
	life := &record.Life{Stages: Stages, Method: how.Method, Missing: slices.Clone(how.Missing)}
	var on, off []probe.Span
	var turns [][2]*timeline
	calls := 0
	for turn := m.BeginNS / cycleNS; turn*cycleNS < m.EndNS; turn++ {
		both, err := w.readTurn(turn)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return findings, err
		}
		for end, one := range both {
			if one != nil {
				one.noCPU = cpus[end].without
			}
		}
		turns = append(turns, both)
		on = append(on, probe.Span{BeginNS: turn * cycleNS, EndNS: turn*cycleNS + turnNS})
		off = append(off, probe.Span{BeginNS: turn*cycleNS + turnNS + settlingNS, EndNS: (turn + 1) * cycleNS})
		calls += len(both[probe.Client].regions)
	}
	for _, both := range turns {
		divideTurn(both[probe.Client], both[probe.Server], cpus[probe.Server], [2]int64{m.BeginNS, m.EndNS}, 1+calls/maxCalls, life)
	}
	life.TracedNS, life.BareNS = probe.MeanInTurns(m.Calls, on, off)
	switch {
	case len(turns) == 0:
		life.Missing = append(life.Missing, "all calls: the client did not trace itself: it must be wirelab's own")
	case turns[0][probe.Server] == nil && !cpus[probe.Server].known:
		life.Missing = append(life.Missing, "the stages of the service: it does not trace itself, and its processes are not known")
	case turns[0][probe.Server] == nil:
		life.Missing = append(life.Missing, "the stages of the service: it does not trace itself; of its processes it is known when they have a CPU")
	}
	return probe.Findings{Life: life}, nil
}

func (w *Watch) readTurn(turn int64) (both [2]*timeline, err error) {
	for _, end := range []probe.End{probe.Client, probe.Server} {
		file, err := os.Open(turnFile(w.TraceFile(end), turn))
		if end == probe.Server && errors.Is(err, fs.ErrNotExist) {
			break // the server is not wirelab's own
		}
		if err != nil {
			return both, err
		}
		both[end], err = readTimeline(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return both, err
		}
	}
	return both, nil
}
