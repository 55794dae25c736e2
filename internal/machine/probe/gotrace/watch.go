package gotrace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

var _ probe.Watch = (*Watch)(nil)

// A Watch reads the traces that both workers of a trial write.
type Watch struct {
	files   [2]*os.File  // of each end; they have no name, so that nothing is left of them
	cpus    *cpuWatch    // nil if the machine does not allow it
	whole   bool         // the workers trace themselves the whole time
	unread  *unreadWatch // nil if the server is not a service
	missing []string
}

// Start makes files for the traces of a trial, in turns or of the whole time. without is why a better way
// to divide calls does not work here; nil if there is none.
func Start(whole bool, without error) (*Watch, error) {
	w := &Watch{whole: whole}
	if without != nil {
		w.missing = append(w.missing, without.Error())
	}
	var err error
	if w.cpus, err = startCPUWatch(); errors.Is(err, host.ErrUnsupported) {
		w.missing = append(w.missing, fmt.Sprintf("waits for CPUs that other programs have: %v", err))
	} else if err != nil {
		return nil, err
	}
	for end := range w.files {
		if w.files[end], err = os.CreateTemp("", "wirelab-traces-"); err != nil {
			return nil, errors.Join(err, w.close())
		}
		_ = os.Remove(w.files[end].Name()) // Windows does not remove open files
	}
	return w, nil
}

func (w *Watch) close() (err error) {
	for _, file := range w.files {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
	}
	return err
}

// TraceFile returns the file for the recorder of an end.
func (w *Watch) TraceFile(end probe.End) *os.File { return w.files[end] }

// AddProcess starts to watch when a worker has no CPU. The worker traces itself.
func (w *Watch) AddProcess(end probe.End, pid int) error {
	if w.cpus == nil {
		return nil
	}
	return w.cpus.addProcess(end, pid)
}

// WatchRequests counts from now on the requests that the service at a port has not read.
func (w *Watch) WatchRequests(port int) {
	if w.unread == nil && port > 0 {
		w.unread = startUnreadWatch(port)
	}
}

// Coverage returns how the probe works.
func (w *Watch) Coverage() probe.Coverage {
	if w.whole {
		return probe.Coverage{Method: "execution traces of both workers, the whole time, because calls are long", Missing: w.missing}
	}
	return probe.Coverage{
		Method:  fmt.Sprintf("execution traces of both workers, for %d of every %d ms", turnNS/1e6, cycleNS/1e6),
		Missing: w.missing,
	}
}

// Stop divides the calls of the window into stages, and frees the traces.
func (w *Watch) Stop(m probe.MeasuredWindow) (findings probe.Findings, err error) {
	defer func() { err = errors.Join(err, w.close()) }()
	unread, unacknowledged := w.unread.stopWatching(m.Span)
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
	life := &record.Life{Stages: Stages, Method: how.Method, Missing: slices.Clone(how.Missing), Unread: unread, Unacknowledged: unacknowledged}
	var on, off []probe.Span
	var turns []*turn
	stacks := newStackTable()
	clientTurns, err := readTurns(w.files[probe.Client])
	if err != nil {
		return findings, err
	}
	serverTurns, err := readTurns(w.files[probe.Server])
	if err != nil {
		return findings, err
	}
	first, last := m.BeginNS/cycleNS, (m.EndNS-1)/cycleNS
	if w.whole {
		first, last = wholeTrace, wholeTrace
	}
	for number := first; number <= last; number++ {
		one, err := readTurn(clientTurns[number], serverTurns[number], len(serverTurns) > 0, stacks)
		if err != nil {
			return findings, err
		}
		if one == nil {
			continue
		}
		one.client.noCPU, one.service = cpus[probe.Client].without, cpus[probe.Server]
		if one.server != nil {
			one.server.noCPU = one.service.without
		}
		if turns = append(turns, one); w.whole {
			continue
		}
		one.horizon = horizonNS
		on = append(on, probe.Span{BeginNS: number * cycleNS, EndNS: number*cycleNS + turnNS})
		off = append(off, probe.Span{BeginNS: number*cycleNS + turnNS + settlingNS, EndNS: (number + 1) * cycleNS})
	}
	var byStack []places
	for i, share := range sharesOf(turns) {
		byStack = append(byStack, turns[i].divide(m.Span, share, life)...)
	}
	if len(byStack) > 0 {
		life.Stacks = stacks.slowAndMedian(life, byStack)
	}
	life.TracedNS, life.BareNS = probe.MeanBegunInTurns(m.Calls, on, off)
	life.Missing = append(life.Missing, w.missingOf(m, life, turns, len(clientTurns) > 0, cpus[probe.Server].known)...)
	return probe.Findings{Life: life}, nil
}

// missingOf says what the traces do not tell.
func (w *Watch) missingOf(m probe.MeasuredWindow, life *record.Life, turns []*turn, traced, serviceKnown bool) (missing []string) {
	if !w.whole {
		missing = longCalls(m)
	}
	switch {
	case !traced && m.EndNS-m.BeginNS > cycleNS:
		return append(missing, "all calls: the client did not trace itself; use a client of wirelab's own")
	case len(life.Calls) == 0 && life.Untold == 0:
		return append(missing, "all calls: none began and ended while both ends traced themselves; let the load last a second or more")
	case len(life.Calls) == 0 && turns[0].server != nil:
		return append(missing, "all calls: none of their handlers is marked, because messages of this stack carry no mark")
	case turns[0].server == nil && !serviceKnown:
		return append(missing, "the stages of the service: it does not trace itself, and its processes are not known")
	case turns[0].server == nil:
		return append(missing, "the stages of the service: it does not trace itself; of its processes it is known when they have a CPU")
	}
	return missing
}

// longCalls says how many calls are too long for a turn.
func longCalls(m probe.MeasuredWindow) []string {
	long := 0
	for _, call := range m.Calls {
		if call[1] > horizonNS {
			long++
		}
	}
	if float64(long) <= fewLongCalls*float64(len(m.Calls)) {
		return nil
	}
	return []string{fmt.Sprintf("the slow calls: %d of %d calls took longer than %d ms, and such calls often do not fit into a turn", long, len(m.Calls), horizonNS/1e6)}
}

// fewLongCalls is the share of calls that may be missing among the slowest 1 %.
const fewLongCalls = 0.001

// sharesOf returns for each turn the share of its calls that are divided, so that each call of a window
// is divided with the same chance, although each turn has its own chance of a mark.
func sharesOf(turns []*turn) []float64 {
	least, calls := 1.0, 0.0
	for _, one := range turns {
		least = min(least, one.client.chance)
	}
	for _, one := range turns {
		calls += float64(len(one.client.regions)) * least / one.client.chance
	}
	return lists.Map(turns, func(one *turn) float64 { return least / one.client.chance * min(1, maxCalls/max(1, calls)) })
}

// readTurn reads what both ends traced in a turn. It returns nil if an end that traces itself lacks it.
func readTurn(client, server *io.SectionReader, traced bool, stacks *stackTable) (both *turn, err error) {
	if client == nil || traced && server == nil {
		return nil, nil
	}
	both = &turn{}
	both.client, err = readTimeline(client, stacks)
	if err == nil && traced {
		both.server, err = readTimeline(server, stacks)
	}
	return both, err
}
