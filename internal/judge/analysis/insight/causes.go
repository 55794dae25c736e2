package insight

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
)

// Causes are found in three steps:
//
//  1. Every reading becomes evidence: a time per call with a kind and an end. CPU time by category tells
//     what the ends do; stages and configured links tell what calls wait for; what neither tells is idle
//     time. With many calls in flight, CPU time of a busy end delays every call that waits behind it.
//  2. A setting that differs between the cells takes the evidence of the kinds that it acts on
//     (effects). Without such evidence it explains nothing.
//  3. Evidence of a kind is added over both ends, and ranked.

// A finder finds the causes of one explanation.
type finder struct {
	of, against *Insight // against is nil if there is one cell
	a, b        load
	whole       float64 // the time or the difference to explain
	proven      bool    // the measured trials prove the difference
	evidence    []evidence
	changed     []change
	noCPU       struct{ a, b float64 } // time of traced calls for which other programs had the CPUs
}

// findCauses returns the causes of a cell's time, or of the difference between two cells, the most
// important first.
func findCauses(e *Explanation) []Cause {
	f := finder{of: e.Of, against: e.Against}
	whole, known := f.wholeTime(&e.Measured, e)
	if !known || e.Measured.Verdict == compare.Equivalent && e.Measured.Margin <= closeMargin {
		return []Cause{}
	}
	f.whole, f.proven = whole, e.Measured.IsProven()
	f.a, f.b = loadsOf(e.Against, e.Of)
	f.addCPU(e)
	f.addQueues()
	f.addStages(e)
	f.addWaits()
	f.addLink()
	f.addIdle(&e.Measured, e)
	f.changed = append(kernelChanges(f.of, f.against), changesBetween(f.against, f.of)...)
	return f.rank(&e.Measured)
}

// wholeTime returns the time to explain: of measured trials, or else of traced calls.
func (f *finder) wholeTime(m *Measured, e *Explanation) (us float64, known bool) {
	switch {
	case f.against == nil && m.B != nil:
		return *m.B, true
	case f.against != nil && m.Ratio != nil:
		return m.Difference()
	case len(e.Stages) > 0:
		return e.Stages[0].Whole.Difference(), true
	}
	return 0, false
}

func (f *finder) add(kind CauseKind, end string, a, b, err float64) {
	if a != 0 || b != 0 {
		f.evidence = append(f.evidence, evidence{kind, end, a, b, err})
	}
}

// categoryScatter is the usual difference of a category's time between two passes, beyond the error of
// sampling.
const categoryScatter = 0.1

// addCPU adds CPU time by category. With a queue it counts once for every call that waits behind it.
func (f *finder) addCPU(e *Explanation) {
	for _, cpu := range e.CPU {
		factor := f.factor(cpu.End)
		for _, part := range cpu.Parts {
			kind := kindOfCategory(part.Name, cpu.End)
			if kind == ByEncryption && (opensConnections(f.of, nil) || f.against != nil && opensConnections(f.against, nil)) {
				kind = ByHandshake
			}
			a, b, err := part.A, part.B, part.Error
			err = math.Hypot(err, categoryScatter*math.Hypot(a, b))
			if kind == ByCollector {
				a, b, err = f.collectorTime(part)
			}
			f.add(kind, cpu.End, factor*a, factor*b, factor*err)
		}
		if !slices.ContainsFunc(cpu.Parts, func(p Change) bool { return kindOfCategory(p.Name, cpu.End) == ByCollector }) {
			a, b, err := f.collectorTime(Change{End: cpu.End})
			f.add(ByCollector, cpu.End, factor*a, factor*b, factor*err)
		}
	}
	if len(e.CPU) > 0 {
		return
	}
	for _, end := range []string{ClientEnd, ServerEnd} { // the runtime's own count needs no probe
		a, b, err := f.collectorTime(Change{End: end})
		f.add(ByCollector, end, f.factor(end)*a, f.factor(end)*b, f.factor(end)*err)
	}
}

// factor returns the time of a call per CPU time at an end. In one cell the queue is a cause of its own.
func (f *finder) factor(end string) float64 {
	if f.against == nil {
		return 1
	}
	return f.b.of(end)
}

// collectorTime returns the collector's CPU time in both cells, by the runtime's own count in the measured
// trials if there is one, or else by samples.
func (f *finder) collectorTime(sampled Change) (a, b, err float64) {
	of, before := endFactsOf(f.of, sampled.End), &EndFacts{Collector: new(0.0)}
	if f.against != nil {
		before = endFactsOf(f.against, sampled.End)
	}
	if of.Collector == nil || before.Collector == nil {
		return sampled.A, sampled.B, sampled.Error
	}
	return *before.Collector, *of.Collector, math.Hypot(of.collectorError, before.collectorError)
}

// addQueues adds the time for which calls queue for busy CPUs.
func (f *finder) addQueues() {
	kind := ByRunQueue
	if sharesCPUs(f.of) && (f.against == nil || !sharesCPUs(f.against)) {
		kind = BySharedCPU
	}
	for _, end := range []string{ClientEnd, ServerEnd} {
		// More CPU time per call lengthens the queue, too: that is in the evidence of its category.
		base := cpuTime(cmp.Or(f.against, f.of), end)
		f.add(kind, end, (f.a.of(end)-1)*base, (f.b.of(end)-1)*base, 0)
	}
}

// addStages adds what the stages of calls tell and CPU time does not: waits.
func (f *finder) addStages(e *Explanation) {
	if len(e.Stages) == 0 {
		return
	}
	hasCPU := len(e.CPU) > 0
	var handler Change
	stages := f.inMeasuredTime(e.Stages[0].Parts)
	f.addWaking(stages)
	for _, part := range stages {
		kind, end, wait := kindOfStage(part.Name)
		switch {
		case part.Name == handlerStage:
			handler = part
		case kind == ByNeighbour:
			f.noCPU.a, f.noCPU.b = f.noCPU.a+part.A, f.noCPU.b+part.B
		case f.b.busiest != "" && (kind == ByRunQueue || kind == ByConnection): // addQueues tells more
		case wait, !hasCPU:
			f.add(kind, end, part.A, part.B, part.Error)
		}
	}
	if !hasCPU {
		f.add(ByHandler, ServerEnd, handler.A, handler.B, handler.Error)
		return
	}
	// The handler waits if it takes longer than its CPU time.
	var computing evidence
	for i := range f.evidence {
		if f.evidence[i].kind == ByHandler && f.evidence[i].end == ServerEnd {
			computing = f.evidence[i]
		}
	}
	waitA, waitB := math.Max(0, handler.A-computing.a), math.Max(0, handler.B-computing.b)
	if f.computesByDesign() { // samples of few calls cannot tell a short wait from computing
		f.evidence = slices.DeleteFunc(f.evidence, func(e evidence) bool { return e.kind == ByHandler && e.end == ServerEnd })
		f.add(ByHandler, ServerEnd, handler.A, handler.B, handler.Error)
		return
	}
	f.add(ByHandlerWait, ServerEnd, waitA, waitB, math.Hypot(handler.Error, computing.error))
}

// inMeasuredTime returns stages as shares of the measured calls, which other programs may have disturbed less
// or more than the traced calls.
func (f *finder) inMeasuredTime(stages []Change) []Change {
	scale := func(i *Insight) float64 {
		if i == nil || i.Life == nil || i.Life.Mean <= 0 {
			return 1
		}
		mean, _ := i.meanOrRefused()
		if mean == nil {
			return 1
		}
		return *mean / i.Life.Mean
	}
	a, b := scale(f.against), scale(f.of)
	return lists.Map(stages, func(c Change) Change {
		c.A, c.B, c.Error = a*c.A, b*c.B, max(a, b)*c.Error
		return c
	})
}

// addWaking replaces the CPU time of waking threads in one cell by the stages between the data and the
// running thread, if these take longer: a CPU that wakes up uses no CPU time.
func (f *finder) addWaking(stages []Change) {
	if f.against != nil || f.b.inFlight >= leastQueue {
		return
	}
	for _, end := range []string{ClientEnd, ServerEnd} {
		staged, used := 0.0, 0.0
		for _, part := range stages {
			if kind, at, _ := kindOfStage(part.Name); kind == ByWaking && at == end {
				staged += part.B
			}
		}
		waking, others := splitBy(f.evidence, func(e evidence) bool { return e.kind == ByWaking && e.end == end })
		for _, e := range waking {
			used += e.b
		}
		if staged > used {
			f.evidence = others
			f.add(ByWaking, end, 0, staged, 0)
		}
	}
}

// computesByDesign reports whether a workload's option makes its handler compute, and with one call in
// flight, so that the handler's stage is its CPU time.
func (f *finder) computesByDesign() bool {
	computes := func(i *Insight) bool {
		return i != nil && slices.ContainsFunc(i.Settings, func(s CellOption) bool { return s.Key == "compute" })
	}
	return f.b.inFlight < leastQueue && (computes(f.of) || computes(f.against))
}

// addLink adds what the link of a cell was set to: each call takes a round trip and the time of its bytes,
// and a new connection takes another round trip.
func (f *finder) addLink() {
	of := func(i *Insight) float64 {
		if i == nil {
			return 0
		}
		us := float64(2*i.network.DelayNS) / 1e3 * (1 + math.Round(valueOf(i.Facts.Opened)))
		return us + carrying(i.network.Up, i.RequestBytes) + carrying(i.network.Down, i.ResponseBytes)
	}
	f.add(ByLink, "", of(f.against), of(f.of), 0)
}

// carrying returns the microseconds in which a link with a rate carries bytes.
func carrying(way record.Way, bytes int) float64 {
	if way.Rate <= 0 {
		return 0
	}
	return 8e6 * float64(bytes) / float64(way.Rate)
}

// addIdle adds the time of a call that is neither CPU time nor a wait that another evidence has, and the part
// of it for which other programs had the CPUs. It may be negative if both ends worked at the same time.
func (f *finder) addIdle(m *Measured, e *Explanation) {
	if f.against != nil && m.A == nil || m.B == nil || len(e.CPU) < 2 {
		if f.hasNeighbours() {
			f.add(ByNeighbour, "", f.noCPU.a, f.noCPU.b, 0)
		}
		return
	}
	rest := func(mean *float64, i *Insight, l load, of func(evidence) float64) float64 {
		left := *mean
		for _, end := range []string{ClientEnd, ServerEnd} {
			left -= l.of(end) * cpuTime(i, end)
		}
		for _, e := range f.evidence {
			if isWait(e.kind) && e.kind != ByRunQueue {
				left -= of(e)
			}
		}
		return left
	}
	a, othersA := 0.0, 0.0
	if f.against != nil {
		a = rest(m.A, f.against, f.a, func(e evidence) float64 { return e.a })
		othersA = delayByOthers(f.against, f.a, a, f.noCPU.a)
	}
	b := rest(m.B, f.of, f.b, func(e evidence) float64 { return e.b })
	if kind := ByQuota; f.hasNeighbours() || f.lacksCPU() {
		othersB := delayByOthers(f.of, f.b, b, f.noCPU.b)
		if f.hasNeighbours() {
			kind = ByNeighbour
		} else {
			othersA, othersB = f.noCPU.a, f.noCPU.b
		}
		f.add(kind, "", othersA, othersB, 0)
		a, b = a-othersA, b-othersB
	}
	f.add(idle, "", a, b, f.errorOfMeans(m))
}

// errorOfMeans returns the standard error of the difference between the two means.
func (f *finder) errorOfMeans(m *Measured) float64 {
	const (
		usualQuantile = 2   // of an interval's half width, in standard errors
		ifUnknown     = 0.1 // of the mean, if the trials are too few to tell
	)
	switch {
	case f.against == nil:
		return 0
	case m.Ratio == nil || m.Ratio.Interval == nil:
		return ifUnknown * *m.B
	}
	return *m.A * (m.Ratio.Interval.High - m.Ratio.Interval.Low) / 2 / usualQuantile
}

const (
	// closeMargin is the largest margin within which two cells take equally long.
	closeMargin = 0.05

	usualSignificance = 3 // standard errors beyond which evidence alone names a cause
	settingEvidence   = 2 // standard errors beyond which evidence agrees with a setting that differs
	leastShare        = 0.05
	leastOfMean       = 0.03 // least share of a call's time that an unproven cause must have
	leastFit          = 0.15 // least share of the difference that the evidence for a setting must have
)

// rank adds up the evidence by kind, and returns the causes that count, the most important first.
func (f *finder) rank(m *Measured) []Cause {
	left := f.evidence
	causes := []Cause{}
	for _, c := range f.changed {
		var cause *Cause
		if cause, left = f.takeEffect(c, left); cause != nil && f.counts(cause, m, settingEvidence) {
			causes = append(causes, *cause)
		}
	}
	fitting := len(causes)
	for len(left) > 0 {
		kind := left[0].kind
		same, others := splitBy(left, func(e evidence) bool { return e.kind == kind })
		left = others
		if kind == idle || kind == other {
			continue
		}
		if cause := f.sum(kind, same); f.counts(cause, m, usualSignificance) {
			cause.Because = f.factsBehind(cause)
			causes = append(causes, *cause)
		}
	}
	larger := func(a, b Cause) int { return cmp.Compare(math.Abs(b.Time), math.Abs(a.Time)) }
	slices.SortStableFunc(causes[:fitting], larger)
	slices.SortStableFunc(causes[fitting:], larger)
	return causes
}

// counts reports whether a cause is more than noise, is large enough, and has the sign of the whole.
func (f *finder) counts(c *Cause, m *Measured, errors float64) bool {
	size := math.Abs(c.Time)
	if size <= errors*c.Error || size < leastShare*math.Abs(f.whole) {
		return false
	}
	if f.against == nil {
		return c.Time > 0
	}
	if f.proven {
		return math.Signbit(c.Time) == math.Signbit(f.whole)
	}
	return size >= leastOfMean*valueOf(m.B)
}

// sum adds up evidence as one cause.
func (f *finder) sum(kind CauseKind, of []evidence) *Cause {
	c := &Cause{Kind: kind}
	variance := 0.0
	for _, e := range of {
		d := e.difference()
		c.Time += d
		variance += e.error * e.error
		switch e.end {
		case ClientEnd:
			c.Client += d
		case ServerEnd:
			c.Server += d
		}
	}
	c.Error = math.Sqrt(variance)
	if f.whole != 0 {
		c.Share = c.Time / f.whole
	}
	switch {
	case math.Abs(c.Client) >= oneEnd*math.Abs(c.Time) && math.Abs(c.Server) < (1-oneEnd)*math.Abs(c.Time):
		c.End = ClientEnd
	case math.Abs(c.Server) >= oneEnd*math.Abs(c.Time) && math.Abs(c.Client) < (1-oneEnd)*math.Abs(c.Time):
		c.End = ServerEnd
	}
	return c
}

// oneEnd is the share of a cause's time from which one end has the cause.
const oneEnd = 0.75

// factsBehind returns the counts that stand for a kind, whatever the settings are.
func (f *finder) factsBehind(c *Cause) string {
	more, less := f.of, f.against
	if c.Time < 0 && less != nil {
		more, less = less, more
	}
	switch c.Kind {
	case ByHandler, ByBackground, ByEncoding, ByEncryption, ByCopying, ByAllocation:
		return ownFunction(more, c.Kind)
	case ByRunQueue, BySharedCPU:
		return strings.TrimPrefix(countQueue(more, less), soText)
	case ByPackets:
		if less != nil && math.Abs(valueOf(more.Facts.Packets)-valueOf(less.Facts.Packets)) > 1 {
			return strings.TrimPrefix(countPackets(more, less), soText)
		}
	case ByLock, ByHandlerWait:
		return cmp.Or(describeWait(more, c), waitingCall(more, less, math.Abs(c.Time)))
	case ByConnection:
		return countUnread(more)
	case ByQuota:
		return describeQuota(more)
	case ByAcks:
		return "an answer waits in its socket until the client acknowledges the part before: so do small writes with Nagle's algorithm, if the client delays acknowledgements"
	case ByNeighbour:
		return fmt.Sprintf("other programs used %s CPUs", units.Number(valueOf(more.Facts.Others)))
	case ByHandshake:
		return fmt.Sprintf("a call opens %s connections", units.Number(valueOf(more.Facts.Opened)))
	case ByLink:
		for _, s := range more.Settings {
			if s.Key == "delay" {
				return change{key: "delay"}.clause(more, less, s.Value, "")
			}
		}
	}
	return ""
}

// takeEffect makes a cause of the evidence that agrees with a setting's known effect, and returns the
// evidence that is left. It returns nil if the evidence does not agree.
func (f *finder) takeEffect(c change, all []evidence) (*Cause, []evidence) {
	known, is := effects[c.key]
	if !is || f.against == nil && known.says == "" {
		return nil, all // in one cell, a setting is a reason only if it costs something by itself
	}
	ofOthers := func(kind CauseKind) bool {
		return slices.ContainsFunc(f.changed, func(other change) bool { return other != c && slices.Contains(effects[other.key].kinds, kind) })
	}
	taken, left := splitBy(all, func(e evidence) bool {
		return e.kind == known.kinds[0] || slices.Contains(known.takes, e.kind) && !ofOthers(e.kind)
	})
	cause := f.sum(known.kinds[0], taken)
	if len(known.takes) == 0 { // the largest kind that the setting acts on
		for _, kind := range known.kinds {
			same, others := splitBy(all, func(e evidence) bool { return e.kind == kind })
			if one := f.sum(kind, same); f.size(one) > f.size(cause) || len(taken) == 0 {
				cause, taken, left = one, same, others
			}
		}
	}
	if len(taken) == 0 || f.size(cause) < leastFit*math.Abs(f.whole) {
		return nil, all
	}
	more, less, its, others := f.of, f.against, c.b, c.a
	if cause.Time < 0 && less != nil {
		more, less, its, others = less, more, others, its
	}
	if known.fits != nil && !known.fits(more, less) {
		return nil, all
	}
	cause.Because = c.clause(more, less, its, others)
	return cause, left
}

// size returns how much of the whole a cause explains. If the trials do not prove a difference, its sign is
// not known.
func (f *finder) size(c *Cause) float64 {
	if f.proven || f.against == nil {
		return c.Time * sign(f.whole)
	}
	return math.Abs(c.Time)
}

func sign(x float64) float64 {
	if x < 0 {
		return -1
	}
	return 1
}
