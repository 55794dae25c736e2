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
	var turns []*turn
	calls := 0
	for number := m.BeginNS / cycleNS; number*cycleNS < m.EndNS; number++ {
		one, err := w.readTurn(number)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return findings, err
		}
		one.client.noCPU, one.service = cpus[probe.Client].without, cpus[probe.Server]
		if one.server != nil {
			one.server.noCPU = one.service.without
		}
		turns = append(turns, one)
		on = append(on, probe.Span{BeginNS: number * cycleNS, EndNS: number*cycleNS + turnNS})
		off = append(off, probe.Span{BeginNS: number*cycleNS + turnNS + settlingNS, EndNS: (number + 1) * cycleNS})
		calls += len(one.client.regions)
	}
	for _, one := range turns {
		one.divide(m.Span, 1+calls/maxCalls, life)
	}
	life.TracedNS, life.BareNS = probe.MeanInTurns(m.Calls, on, off)
	switch {
	case len(turns) == 0:
		life.Missing = append(life.Missing, "all calls: the client did not trace itself: it must be wirelab's own")
	case turns[0].server == nil && !cpus[probe.Server].known:
		life.Missing = append(life.Missing, "the stages of the service: it does not trace itself, and its processes are not known")
	case turns[0].server == nil:
		life.Missing = append(life.Missing, "the stages of the service: it does not trace itself; of its processes it is known when they have a CPU")
	}
	return probe.Findings{Life: life}, nil
}

func (w *Watch) readTurn(number int64) (_ *turn, err error) {
	both := &turn{}
	if both.client, err = readTimelineFile(turnFile(w.TraceFile(probe.Client), number)); err != nil {
		return nil, err
	}
	both.server, err = readTimelineFile(turnFile(w.TraceFile(probe.Server), number))
	if errors.Is(err, fs.ErrNotExist) { // the server is not wirelab's own
		return both, nil
	}
	return both, err
}

func readTimelineFile(path string) (*timeline, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	t, err := readTimeline(file)
	return t, errors.Join(err, file.Close())
}
