package insight

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// evidence is a part of a call's time in both cells, in microseconds.
type evidence struct {
	kind  CauseKind
	end   string
	a, b  float64
	error float64 // standard error of b minus a
}

func (e evidence) difference() float64 { return e.b - e.a }

// idle is the kind of the time that is neither CPU time nor a wait that a probe names.
const idle CauseKind = ""

// A load says how CPU time of each end becomes time of a call.
type load struct {
	inFlight       float64
	client, server float64 // time of a call per CPU time of a call, 1 or more
	busiest        string  // the end whose CPUs limit the calls, or bothBusy; empty if neither does
	busy           float64 // its busy share
}

const (
	// busyEnough is the busy share from which calls queue for an end's CPUs.
	busyEnough = 0.85
	// bothBusy means that calls queue for the CPUs of both ends in turn: each of the two is busy for most of the
	// time, and idle only if the calls wait at the other one.
	bothBusy   = "both"
	evenlyBusy = 0.7 // busy share of the busier end from which this is so
	alikeBusy  = 0.8 // least busy share of the other end, divided by that of the busier one
	// stillBusy is the busy share that suffices if the other cell's calls queue for the same CPUs.
	stillBusy = 0.6
)

// loadsOf returns the loads of two cells. against may be nil.
func loadsOf(against, of *Insight) (a, b load) {
	b = loadOf(of, busyEnough)
	if against == nil {
		return load{inFlight: 1, client: 1, server: 1}, b
	}
	if a = loadOf(against, busyEnough); a.busiest == b.busiest {
		return a, b
	}
	if again := loadOf(against, stillBusy); again.busiest == b.busiest {
		return again, b
	}
	if again := loadOf(of, stillBusy); again.busiest == a.busiest {
		return a, again
	}
	return a, b
}

// loadOf returns the load of a cell. If several calls are in flight and an end's CPUs are busy, then the
// calls queue there: by Little's law a call takes the CPU time of all calls in flight.
func loadOf(i *Insight, enough float64) load {
	l := load{inFlight: 1, client: 1, server: 1}
	if i.Facts.InFlight != nil {
		l.inFlight = *i.Facts.InFlight
	}
	if l.inFlight < leastQueue {
		return l
	}
	queue := func(end *EndFacts) float64 { return math.Max(1, l.inFlight/math.Max(1, float64(len(end.CPUs)))) }
	// What other programs use of the CPUs is not free for calls.
	others := othersShare(i)
	client, server := valueOf(i.Facts.Client.Busy)+others, valueOf(i.Facts.Server.Busy)+others
	switch {
	case sharesCPUs(i) && client+server >= enough:
		l.client, l.server, l.busiest, l.busy = queue(&i.Facts.Client), queue(&i.Facts.Server), ServerEnd, client+server
	case math.Max(client, server) >= math.Min(enough, evenlyBusy) && math.Min(client, server) >= alikeBusy*math.Max(client, server):
		l.client, l.server = math.Max(1, queue(&i.Facts.Client)/2), math.Max(1, queue(&i.Facts.Server)/2)
		l.busiest, l.busy = bothBusy, math.Max(client, server)
	case server >= enough && server >= client:
		l.server, l.busiest, l.busy = queue(&i.Facts.Server), ServerEnd, server
	case client >= enough:
		l.client, l.busiest, l.busy = queue(&i.Facts.Client), ClientEnd, client
	}
	if isStretched(i) {
		l.server = math.Max(l.server, 1+valueOf(i.Facts.Server.Waited)/cpuTime(i, ServerEnd))
	}
	return l
}

// isStretched reports whether other programs make each CPU time of a user's service longer, for which neither its
// quota nor its priority is the reason.
func isStretched(i *Insight) bool {
	return i.Cell().Stack == record.ServiceStack && valueOf(i.Facts.Others) >= leastOthers && cpuTime(i, ServerEnd) > 0 && describeQuota(i) == ""
}

// othersShare returns the share of the CPUs of both ends that other programs used, if these use all CPUs
// alike.
func othersShare(i *Insight) float64 {
	return valueOf(i.Facts.Others) / math.Max(1, float64(len(i.Facts.Client.CPUs)+len(i.Facts.Server.CPUs)))
}

// leastQueue is the number of calls in flight from which calls may queue.
const leastQueue = 1.5

func valueOf(f *float64) float64 { return *cmp.Or(f, new(0.0)) }

// sharesCPUs reports whether client and server are pinned to the same CPUs.
func sharesCPUs(i *Insight) bool {
	return len(i.Facts.Client.CPUs) > 0 && slices.Equal(i.Facts.Client.CPUs, i.Facts.Server.CPUs)
}

// delayByOthers returns for how long other programs kept a call off its CPUs, out of the rest of its time: as
// traced calls tell, or more. If others use a share of the CPUs, then a call's CPU time takes longer by this
// share at most, if its threads were ready for so long. A call waits also for those before it in the queue.
func delayByOthers(i *Insight, l load, rest, traced float64) float64 {
	const most = 0.95
	share := math.Min(most, othersShare(i))
	waited := l.client*valueOf(i.Facts.Client.Waited) + l.server*valueOf(i.Facts.Server.Waited)
	delay := math.Min(waited, (l.client*cpuTime(i, ClientEnd)+l.server*cpuTime(i, ServerEnd))*share/(1-share))
	return math.Max(traced, math.Min(delay, math.Max(0, rest)))
}

func (l load) of(end string) float64 {
	if end == ClientEnd {
		return l.client
	}
	return l.server
}

func endFactsOf(i *Insight, end string) *EndFacts {
	if end == ClientEnd {
		return &i.Facts.Client
	}
	return &i.Facts.Server
}

func cpuTime(i *Insight, end string) float64 { return valueOf(endFactsOf(i, end).CPU) }

// isWait reports whether calls spend the time of a kind without a CPU.
func isWait(kind CauseKind) bool {
	return slices.Contains([]CauseKind{ByRunQueue, ByHandlerWait, ByLock, ByWindow, ByLimit, ByHeadOfLine, ByLink, ByConnection}, kind)
}

func splitBy(all []evidence, has func(evidence) bool) (with, without []evidence) {
	for _, e := range all {
		if has(e) {
			with = append(with, e)
		} else {
			without = append(without, e)
		}
	}
	return with, without
}

// addWaits says what the handler or the service waits for. Waits of goroutines do not include waiting for a
// CPU, so they are taken from the time that stages call waiting, and from queues for CPUs, which are estimates.
func (f *finder) addWaits() {
	if f.against != nil && (f.against.Server.OffCPU == nil) != (f.of.Server.OffCPU == nil) {
		return
	}
	a, b := waitsByKind(f.against), waitsByKind(f.of)
	// Requests also lie unread while the service has no CPU.
	a[ByConnection], b[ByConnection] = math.Max(0, a[ByConnection]-f.noCPU.a), math.Max(0, b[ByConnection]-f.noCPU.b)
	sum := func(of map[CauseKind]float64) (all float64) {
		for _, kind := range kindsInService {
			all += of[kind]
		}
		return all
	}
	leftA, leftB := sum(a), sum(b)
	for i := range f.evidence {
		e := &f.evidence[i]
		if e.end == ServerEnd && slices.Contains([]CauseKind{ByHandlerWait, ByRunQueue, BySharedCPU}, e.kind) {
			takenA, takenB := math.Min(leftA, math.Max(0, e.a)), math.Min(leftB, math.Max(0, e.b))
			e.a, e.b, leftA, leftB = e.a-takenA, e.b-takenB, leftA-takenA, leftB-takenB
		}
	}
	for _, kind := range kindsInService {
		f.add(kind, ServerEnd, a[kind], b[kind], categoryScatter*math.Hypot(a[kind], b[kind]))
	}
}

// kindsInService lists what calls wait for in a server, and before it reads them.
var kindsInService = []CauseKind{ByLock, ByHandlerWait, ByCollector, ByConnection, ByAcks}

// leastOthers is the number of CPUs from which other programs' use of CPUs may be a cause.
const leastOthers = 0.2

// hasNeighbours reports whether other programs used CPUs during one cell. If trials took turns, other
// programs slow both cells alike.
func (f *finder) hasNeighbours() bool {
	others := valueOf(f.of.Facts.Others)
	if f.against == nil {
		return others >= leastOthers && !sharesCPUs(f.of)
	}
	if f.of.Part == f.against.Part && f.of.Place == f.against.Place {
		return false
	}
	more := others - valueOf(f.against.Facts.Others)
	return math.Abs(more) >= leastOthers && sign(more) == sign(f.whole)
}

// lacksCPU reports whether one of two services has work but no CPU for much longer than the other one, although
// they took turns: then other programs are no reason.
func (f *finder) lacksCPU() bool {
	more := f.noCPU.b - f.noCPU.a
	return f.against != nil && !isStretched(f.of) && f.of.Cell().Stack == record.ServiceStack && sign(more) == sign(f.whole) && math.Abs(more) >= leastOfWait*math.Abs(f.whole)
}

// timesInSockets returns for how long a request lies unread in the sockets of a user's service, and an answer
// unacknowledged, by Little's law. If the service keeps a CPU busy, then calls wait for that.
func timesInSockets(i *Insight) (unread, unacknowledged float64) {
	mean, _ := i.meanOrRefused()
	inFlight := valueOf(i.Facts.InFlight)
	if mean == nil || i.Life == nil || inFlight == 0 || cpuTime(i, ServerEnd)*inFlight / *mean >= stillBusy {
		return 0, 0
	}
	timeOf := func(requests *float64) float64 { return *mean * math.Min(1, valueOf(requests)/inFlight) }
	unread, unacknowledged = timeOf(i.Life.Unread), timeOf(i.Life.Unacknowledged)
	// The next request acknowledges a small answer. A large one is under way for as long as the client reads.
	if unacknowledged < delayedACK || valueOf(i.Facts.Packets) > fewPackets {
		unacknowledged = 0
	}
	return unread, unacknowledged
}

// delayedACK is half of the least time for which Linux delays an acknowledgement, in microseconds.
const delayedACK = 20_000

// fewPackets is the greatest number of packets per call with which an answer is small.
const fewPackets = 10

// waitsByKind adds up the waits of a cell. Handlers may wait in several goroutines at once, but together they
// take no longer than the call.
func waitsByKind(i *Insight) map[CauseKind]float64 {
	sums, all := map[CauseKind]float64{}, 0.0
	if i == nil {
		return sums
	}
	for _, w := range i.Server.Waits {
		sums[kindsOfWaits[w.For]] += w.Share
		all += w.Share
	}
	mean, _ := i.meanOrRefused()
	for kind := range sums {
		sums[kind] *= valueOf(mean) / math.Max(1, all)
	}
	sums[ByConnection], sums[ByAcks] = timesInSockets(i)
	return sums
}

// rarely is the number of waits per call below which only some calls wait.
const rarely = 0.5

// describeWait says for what, where and how often calls wait most, of all waits of a cause's kind. It says
// nothing if that is the smaller part of the cause.
func describeWait(i *Insight, c *Cause) string {
	at := slices.IndexFunc(i.Server.Waits, func(w Wait) bool { return kindsOfWaits[w.For] == c.Kind })
	if at < 0 || i.Server.Waits[at].Time < math.Abs(c.Time)/2 {
		return ""
	}
	w := i.Server.Waits[at]
	who, what := "threads", "wait for "+w.For
	if w.Goroutines {
		who = "goroutines"
	}
	switch w.For {
	case unclearLock:
		what = "wait for a lock or for another thread (futex)"
	case "a sleep":
		what = "sleep"
	}
	text := who + " " + what
	if w.Function != "" {
		text += " in " + w.shortFunction()
	}
	each := units.Time(w.Time / w.Times * 1e3)
	if w.Times < rarely {
		return text + fmt.Sprintf(" (in one of %s calls, for %s)", units.Number(math.Round(1/w.Times)), each)
	}
	return text + fmt.Sprintf(" (%s of a call's time, %s times %s)", units.Percent(w.Share), units.Number(w.Times), each)
}

// ownFunction names the function of a user's service behind a kind of CPU time.
func ownFunction(of *Insight, kind CauseKind) string {
	if of.Server.CPU == nil || of.Cell().Stack != record.ServiceStack {
		return ""
	}
	for _, c := range of.Server.CPU.Categories { // the largest first
		if kindOfCategory(c.Name, ServerEnd) == kind && c.Function != "" {
			text := fmt.Sprintf("%s takes %s", c.Function, units.Time(c.PerCall*1e3))
			if language := interpreters[c.Function]; language != "" {
				text = fmt.Sprintf("%s code takes %s, in which function is not known", language, units.Time(c.PerCall*1e3))
			} else if c.In != "" {
				text += ", most of it in " + c.In
			}
			return text + whyLonger(of)
		}
	}
	return ""
}

// interpreters maps the functions that run code without a name of its own to the language.
var interpreters = map[string]string{
	"_PyEval_EvalFrameDefault": "Python", "_PyEval_Vector": "Python", "Builtins_InterpreterEntryTrampoline": "JavaScript", "Builtins_JSEntry": "JavaScript",
	"vm_exec_core": "Ruby", "execute_ex": "PHP", "[compiled in memory]": "compiled", "Interpreter": "interpreted",
}

// whyLonger says why CPU time of a service makes a call longer than that.
func whyLonger(of *Insight) string {
	l := loadOf(of, stillBusy)
	switch {
	case isStretched(of) && valueOf(of.Facts.Server.Waited) >= cpuTime(of, ServerEnd):
		return fmt.Sprintf("; other programs keep the service off its CPUs for %s per call", units.Time(*of.Facts.Server.Waited*1e3))
	case l.server >= leastQueue && len(of.Facts.Server.CPUs) == 1:
		return fmt.Sprintf(", and %s calls share its CPU", units.Number(math.Round(l.inFlight)))
	case l.server >= leastQueue:
		return fmt.Sprintf(", and %s calls share its %d CPUs", units.Number(math.Round(l.inFlight)), len(of.Facts.Server.CPUs))
	}
	return ""
}

// describeQuota says why a service has work but no CPU.
func describeQuota(of *Insight) string {
	switch s := of.Facts.Server; {
	case s.Quota != nil:
		return fmt.Sprintf("its control group may use only %s CPUs", units.Number(*s.Quota))
	case s.Nice > 0:
		return fmt.Sprintf("its priority is low (nice %d), and other programs come first", s.Nice)
	}
	return ""
}
