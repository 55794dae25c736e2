package insight

import (
	"cmp"
	"slices"
	"strings"

	"wirelab.dev/internal/base/pattern"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Wait is what calls wait for in one function of a server, from the probe offcpu.
type Wait struct {
	For      string `json:"for"`      // the category, such as "a lock"
	Function string `json:"function"` // the server's own function nearest to the wait; empty if unknown
	// Goroutines says that goroutines wait. Otherwise threads do.
	Goroutines bool    `json:"goroutines"`
	Share      float64 `json:"share"`       // share of a call's time
	Times      float64 `json:"per_call"`    // number of waits per call
	Time       float64 `json:"us_per_call"` // the share of a call without a probe
}

func (w Wait) name() string {
	return w.For + " in " + cmp.Or(w.shortFunction(), "threads without names of functions")
}

// shortFunction returns the function without its package's path, as in main.(*Store).Get.
func (w Wait) shortFunction() string { return w.Function[strings.LastIndexByte(w.Function, '/')+1:] }

const (
	// leastTimes is the least number of waits per call. Threads wait for work less often. It does not count if a
	// library's function is known to have called the handler.
	leastTimes = 0.05
	// leastTimesUnnamed is the same for waits in threads whose functions have no names. Threads of a runtime wait
	// for the next period or for work all the time, so the waits must be those of more threads than these.
	leastTimesUnnamed = 0.5
	idleThreads       = 4
	leastWaitShare    = 0.005            // of a call's time
	goroutineWait     = "runtime.gopark" // innermost function of a goroutine that waits
)

// kindsOfWaits maps categories of waits to kinds of causes. Waits of other categories are no causes.
var kindsOfWaits = map[string]CauseKind{
	"a lock": ByLock, unclearLock: ByLock,
	"a sleep": ByHandlerWait, "a channel": ByHandlerWait, "a condition": ByHandlerWait, "other goroutines": ByHandlerWait, "an answer from another service": ByHandlerWait, "room in a socket's buffer": ByHandlerWait,
	"data from the network": ByHandlerWait, "a pipe or a file": ByHandlerWait,
	"the garbage collector": ByCollector,
}

// unclearLock is the category of threads that wait for another thread: the kernel knows no more.
const unclearLock = "nothing to do, or a lock (futex)"

// runsHandler matches the functions of libraries below which handlers of requests run.
var runsHandler = pattern.Matcher(`^(net/http\.(\(\*conn\)\.serve$|.*runHandler)|golang\.org/x/net/http2\.\(\*serverConn\)\.runHandler|google\.golang\.org/grpc\.\(\*Server\)|wirelab\.dev/rpc/|github\.com/(valyala/fasthttp|cloudwego|quic-go/quic-go/http3)|connectrpc\.com/)`)

// addWaits adds the waits inside the handling of calls.
func (i *Insight) addWaits(passes []*record.Record, categories *Categories) {
	found := waitFinder{off: categories.offCPUSorter(), cpu: categories.cpuSorter(), inFlight: *cmp.Or(i.Facts.InFlight, new(float64(i.Clients)))}
	for _, r := range passes {
		if seen := r.Server.Seen; r.Probe == record.ProbeOffCPU && seen != nil && seen.Stacks != nil && r.Completed > 0 {
			found.add(seen.Stacks)
			found.calls += float64(r.Completed)
			found.time += meanResponse(matrix.Trial{Record: r}) * float64(r.Completed)
			found.longest = max(found.longest, float64(cmp.Or(r.Response, &r.Service).Max)/1e3)
		}
	}
	if found.calls == 0 || !(found.time > 0) {
		return
	}
	mean, _ := i.meanOrRefused()
	i.Server.Waits = found.waits(*cmp.Or(mean, new(found.time/found.calls)))
}

// A waitFinder adds up waits by category and function.
type waitFinder struct {
	off, cpu    *sorter
	inFlight    float64 // number of calls in flight
	calls, time float64 // of all passes, in microseconds
	longest     float64 // time of the longest call
	all         []foundWait
}

type foundWait struct {
	Wait
	handled bool // below a library's function that runs handlers
	nested  bool // the function that waits was called by another function of the server
}

func (f *waitFinder) add(stacks *record.Stacks) {
	for _, stack := range stacks.Stacks {
		frames := stacks.Functions(stack)
		what := f.off.categoryOf(frames)
		if _, is := kindsOfWaits[what]; !is || len(frames) == 0 {
			continue
		}
		one := foundWait{Wait: Wait{For: what, Goroutines: frames[len(frames)-1].Function == goroutineWait, Times: float64(stack.Count), Time: float64(stack.Weight) / 1e3}}
		for _, frame := range slices.Backward(frames) {
			switch {
			case runsHandler(frame.Function):
				one.handled = true
			case !f.isOwn(frame):
			case one.Function == "":
				one.Function = frame.Function
			default:
				one.nested = true
			}
		}
		same := slices.IndexFunc(f.all, func(o foundWait) bool {
			return o.For == one.For && o.Function == one.Function && o.Goroutines == one.Goroutines && o.handled == one.handled && o.nested == one.nested
		})
		if same < 0 {
			f.all = append(f.all, one)
			continue
		}
		f.all[same].Time += one.Time
		f.all[same].Times += one.Times
	}
}

// isOwn reports whether a function is the server's own.
func (f *waitFinder) isOwn(frame record.Frame) bool {
	if place := f.cpu.ruleIndex(frame); place > 0 {
		category := f.cpu.rules[place-1].Category
		return category == applicationCategory || f.cpu.ofService && category == ownCategory
	}
	return f.cpu.ofService && isApplication(frame)
}

// waits returns the waits inside the handling of calls. mean is the time of a call without a probe.
//
// A goroutine or a thread that waits for work does so in the first of the server's functions, or in none.
// So a wait counts if a library's known function called the handler. If there is none, the function that
// waits must have been called by another function of the server.
func (f *waitFinder) waits(mean float64) []Wait {
	handled := slices.ContainsFunc(f.all, func(w foundWait) bool { return w.handled && w.Function != "" })
	named := slices.ContainsFunc(f.all, func(w foundWait) bool { return w.Function != "" })
	var counted []Wait
	for _, w := range f.all {
		each := w.Time / w.Times
		w.Share, w.Times = w.Time/f.time, w.Times/f.calls
		w.Time = w.Share * mean
		least := leastTimes
		switch {
		case w.Function != "" && w.handled:
			if each <= f.longest { // otherwise it is no part of a call that ended
				least = 0
			}
		case w.Function != "" && !handled && w.nested:
		case w.Function == "" && !named && !w.Goroutines && (w.For == unclearLock || w.For == "a sleep") && w.Share*f.inFlight > idleThreads && w.Share <= 1:
			least = leastTimesUnnamed
		default:
			continue
		}
		if w.Times < least || w.Share < leastWaitShare {
			continue
		}
		if at := slices.IndexFunc(counted, func(o Wait) bool { return o.For == w.For && o.Function == w.Function }); at >= 0 {
			counted[at].Share, counted[at].Times, counted[at].Time = counted[at].Share+w.Share, counted[at].Times+w.Times, counted[at].Time+w.Time
			continue
		}
		counted = append(counted, w.Wait)
	}
	slices.SortStableFunc(counted, func(a, b Wait) int { return cmp.Compare(b.Time, a.Time) })
	return counted
}
