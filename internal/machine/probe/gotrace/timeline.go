package gotrace

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/exp/trace"

	"wirelab.dev/internal/machine/probe"
)

// A status is what a goroutine does.
type status uint8

const (
	gone status = iota // not created yet, or ended
	running
	ready // waits for a CPU of the runtime
	waiting
	inSyscall
)

// A purpose is what a goroutine waits for, or what a system call does.
type purpose uint8

const (
	other purpose = iota
	forNetwork
	forLock
	forWindow
	forCollector
	reads
	writes
)

// A step is a change of a goroutine's status.
type step struct {
	at    int64
	to    status
	why   purpose // of waiting and inSyscall
	stack stackID // with which the goroutine last stopped running
	by    int64   // the goroutine that made it ready; nobody if a socket, a timer or the scheduler did
}

const nobody = int64(trace.NoGoroutine)

// A region is a call in a client's process, or a handler in a server's.
type region struct {
	name       string
	goroutine  int64
	begin, end int64
}

// A timeline holds what the goroutines of a process did in a turn.
type timeline struct {
	span    probe.Span
	steps   map[int64][]step
	marks   map[int64][]mark // by goroutine
	regions []region         // in the order of their ends
	byName  map[string][]region
	own     map[int64][]region // by goroutine
	// collecting is the share of the CPUs that the collector has; 1 while the world is stopped.
	collecting   weights
	assists      map[int64]weights // goroutines that must collect
	full         weights           // 1 while every CPU of the runtime runs a goroutine
	noCPU        weights           // 1 while the process has work, and other programs have its CPUs
	writers      map[int64]int64   // the goroutine that writes what another one hands over
	waitsToWrite map[int64]bool
	chance       float64 // with which a call was marked
}

// weights is a function of time, constant between its changes.
type weights []weight

type weight struct {
	at    int64
	value float64
}

func (w *weights) set(at int64, value float64) {
	if n := len(*w); n == 0 && value != 0 || n > 0 && (*w)[n-1].value != value {
		*w = append(*w, weight{at, value})
	}
}

// integral returns the time between two instants, weighted.
func (w weights) integral(from, to int64) float64 {
	i, _ := slices.BinarySearchFunc(w, from, func(one weight, at int64) int { return cmp.Compare(one.at, at) })
	sum := 0.0
	for i = max(0, i-1); i < len(w) && w[i].at < to; i++ {
		until := to
		if i+1 < len(w) {
			until = min(to, w[i+1].at)
		}
		if since := max(from, w[i].at); until > since {
			sum += w[i].value * float64(until-since)
		}
	}
	return sum
}

// A reading collects the events of a trace.
type reading struct {
	*timeline
	open       map[int64]region // regions that have begun, by goroutine
	table      *stackTable
	stacks     map[trace.Stack]stackID
	purposes   map[trace.Stack]purpose
	writeWaits map[trace.Stack]bool
	collectors map[int64]bool // goroutines that collect in the background
	collect    int            // how many of them run
	busy       int            // goroutines that run
	stopped    int
	cpus       int
}

// readTimeline reads the trace of a turn, and adds its call stacks to a table.
func readTimeline(from io.Reader, stacks *stackTable) (*timeline, error) {
	events, err := trace.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("read an execution trace: %w", err)
	}
	r := &reading{
		timeline: &timeline{
			steps: map[int64][]step{}, marks: map[int64][]mark{}, byName: map[string][]region{}, own: map[int64][]region{}, assists: map[int64]weights{}, writers: map[int64]int64{}, waitsToWrite: map[int64]bool{}, chance: 1,
		},
		table: stacks, stacks: map[trace.Stack]stackID{},
		open: map[int64]region{}, purposes: map[trace.Stack]purpose{}, writeWaits: map[trace.Stack]bool{}, collectors: map[int64]bool{}, cpus: 1,
	}
	for n := 0; ; n++ {
		e, err := events.ReadEvent()
		switch {
		case errors.Is(err, io.EOF):
			r.findWriters()
			return r.timeline, nil
		case err != nil:
			return nil, fmt.Errorf("read an execution trace, event %d: %w", n, err)
		}
		r.add(&e)
	}
}

func (r *reading) add(e *trace.Event) {
	at := int64(e.Time())
	if r.span.BeginNS == 0 {
		r.span.BeginNS = at
	}
	r.span.EndNS = max(r.span.EndNS, at)
	marks := true // whether the event has a call stack of a goroutine that goes on running
	switch e.Kind() {
	case trace.EventStateTransition:
		if s := e.StateTransition(); s.Resource.Kind == trace.ResourceGoroutine {
			from, _ := s.Goroutine()
			marks = from != trace.GoUndetermined && s.Resource.Goroutine() != e.Goroutine()
			r.change(at, &s, int64(e.Goroutine()))
		}
	case trace.EventRegionBegin:
		if g := int64(e.Goroutine()); strings.HasPrefix(e.Region().Type, CallRegion) {
			r.open[g] = region{name: e.Region().Type, goroutine: g, begin: at}
		}
	case trace.EventRegionEnd:
		g := int64(e.Goroutine())
		if one := r.open[g]; one.name == e.Region().Type && one.name != "" {
			one.end = at
			r.regions = append(r.regions, one)
			r.byName[one.name], r.own[g] = append(r.byName[one.name], one), append(r.own[g], one)
			delete(r.open, g)
		}
	case trace.EventRangeBegin, trace.EventRangeActive, trace.EventRangeEnd:
		r.changeRange(at, e)
	case trace.EventLog:
		if l := e.Log(); l.Category == chanceCategory {
			if chance, err := strconv.ParseFloat(l.Message, 64); err == nil && chance > 0 && chance < 1 {
				r.chance = chance
			}
		}
	case trace.EventMetric:
		if m := e.Metric(); m.Name == "/sched/gomaxprocs:threads" {
			r.cpus = int(max(1, m.Value.Uint64()))
		}
	case trace.EventLabel:
		if l := e.Label(); strings.HasPrefix(l.Label, "GC (") && l.Resource.Kind == trace.ResourceGoroutine {
			g := int64(l.Resource.Goroutine())
			if steps := r.steps[g]; !r.collectors[g] && len(steps) > 0 && steps[len(steps)-1].to == running {
				r.collect++
			}
			r.collectors[g] = true
			r.setWeights(at)
		}
	}
	if g := int64(e.Goroutine()); marks && g != nobody && e.Stack() != trace.NoStack {
		r.marks[g] = append(r.marks[g], mark{at, r.stackOf(e.Stack())})
	}
}

func (r *reading) stackOf(s trace.Stack) stackID {
	id, known := r.stacks[s]
	if !known {
		id = r.table.add(s)
		r.stacks[s] = id
	}
	return id
}

func (r *reading) changeRange(at int64, e *trace.Event) {
	what, change := e.Range(), 1
	if e.Kind() == trace.EventRangeEnd {
		change = -1
	}
	switch {
	case strings.HasPrefix(what.Name, "stop-the-world"):
		r.stopped = max(0, r.stopped+change)
		r.setWeights(at)
	case what.Name == "GC mark assist" && what.Scope.Kind == trace.ResourceGoroutine:
		g := int64(what.Scope.Goroutine())
		assists := r.assists[g]
		assists.set(at, float64(max(0, change)))
		r.assists[g] = assists
	}
}

// change adds a step of a goroutine. by is the goroutine that was running.
func (r *reading) change(at int64, s *trace.StateTransition, by int64) {
	from, to := s.Goroutine()
	g := int64(s.Resource.Goroutine())
	next := step{at: at, to: statusOf(to), by: by}
	if from == trace.GoUndetermined { // it existed before the turn
		next.by = nobody
	}
	switch next.to {
	case waiting, inSyscall:
		next.why = r.purposeOf(s)
		if next.to == waiting && r.waitsForItems(s) {
			r.waitsToWrite[g] = true
		}
	case ready:
		if statusOf(from) == running { // yielded or preempted
			next.by = g
		}
	}
	if next.stack = r.stackOf(s.Stack); next.stack == unknownStack && len(r.steps[g]) > 0 {
		next.stack = r.steps[g][len(r.steps[g])-1].stack
	}
	r.steps[g] = append(r.steps[g], next)
	holdsCPU := func(s status) int {
		if s == running || s == inSyscall {
			return 1
		}
		return 0
	}
	change := holdsCPU(next.to) - holdsCPU(statusOf(from))
	r.busy += change
	if r.collectors[g] {
		r.collect += change
	}
	r.setWeights(at)
}

func (r *reading) setWeights(at int64) {
	share := float64(r.collect) / float64(r.cpus)
	if r.stopped > 0 {
		share = 1
	}
	r.collecting.set(at, max(0, min(1, share)))
	full := 0.0
	if r.busy >= r.cpus {
		full = 1
	}
	r.full.set(at, full)
}

func statusOf(s trace.GoState) status {
	switch s {
	case trace.GoRunning:
		return running
	case trace.GoRunnable:
		return ready
	case trace.GoWaiting:
		return waiting
	case trace.GoSyscall:
		return inSyscall
	}
	return gone
}

// purposesOfFunctions says what the functions on a waiting goroutine's stack wait for.
var purposesOfFunctions = []struct {
	function string
	why      purpose
}{
	{"syscall.read", reads},
	{"syscall.recv", reads},
	{"unix.Recv", reads},
	{"unix.Read", reads},
	{"syscall.write", writes},
	{"syscall.send", writes},
	{"unix.Send", writes},
	{"unix.Write", writes},
	{"transport.(*writeQuota).get", forWindow},        // grpc-go
	{"(*clientStream).awaitFlowControl", forWindow},   // net/http, x/net/http2
	{"(*serverConn).writeDataFromHandler", forWindow}, // the frame waits for its turn and its window
	{"quic-go.(*SendStream).write", forWindow},        // quic-go
	{"rpc/h2.(*", forWindow},                          // fastgrpc
	{"creditrpc.", forWindow},                         // credits of the receiver
	{"semaphore.(*Weighted).Acquire", forLock},        // x/sync
}

func (r *reading) purposeOf(s *trace.StateTransition) purpose {
	switch s.Reason {
	case "network":
		return forNetwork
	case "sleep":
		return other
	case "sync", "sync.(*Cond).Wait":
		return forLock
	case "GC mark assist wait for work", "wait until GC ends":
		return forCollector
	}
	why, known := r.purposes[s.Stack]
	if known {
		return why
	}
	for f := range s.Stack.Frames() {
		for _, one := range purposesOfFunctions {
			if why == other && strings.Contains(f.Func, one.function) {
				why = one.why
			}
		}
	}
	r.purposes[s.Stack] = why
	return why
}

// waitsForItems reports whether a goroutine waits for something to write to a connection.
func (r *reading) waitsForItems(s *trace.StateTransition) bool {
	waits, known := r.writeWaits[s.Stack]
	if known || s.Reason == "network" {
		return waits
	}
	for f := range s.Stack.Frames() {
		for _, loop := range []string{"loopyWriter", ").write", "riteLoop", "sendQueue", "(*Conn).run"} {
			waits = waits || strings.Contains(f.Func, loop)
		}
	}
	r.writeWaits[s.Stack] = waits
	return waits
}

// findWriters finds out which goroutine writes for another one: the last one that it woke of those
// that wait for something to write. A goroutine that handles one call is known by its creator.
func (t *timeline) findWriters() {
	type wake struct{ at, by, writer int64 }
	var wakes []wake
	for g, steps := range t.steps {
		if !t.waitsToWrite[g] {
			continue
		}
		for i, s := range steps {
			if i > 0 && s.to == ready && steps[i-1].to == waiting && s.by != nobody {
				wakes = append(wakes, wake{s.at, t.lasting(s.by), g})
			}
		}
	}
	slices.SortFunc(wakes, func(a, b wake) int { return cmp.Compare(a.at, b.at) })
	for _, w := range wakes {
		t.writers[w.by] = w.writer
	}
}

// lasting returns the goroutine itself, or its creator if it was created in this turn.
func (t *timeline) lasting(g int64) int64 {
	if steps := t.steps[g]; len(steps) > 0 && steps[0].to == ready && steps[0].by != nobody && steps[0].by != g {
		return steps[0].by
	}
	return g
}

// before returns the index of a goroutine's last step that is not after an instant, or -1.
func (t *timeline) before(g, at int64) int {
	steps := t.steps[g]
	i, _ := slices.BinarySearchFunc(steps, at+1, func(s step, at int64) int { return cmp.Compare(s.at, at) })
	return i - 1
}
