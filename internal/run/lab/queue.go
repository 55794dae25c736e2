package lab

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
)

const (
	// lookDuration is the length of a look at the machine. It is ten times the unit in which the
	// kernel counts CPU time.
	lookDuration = 100 * time.Millisecond
	// quietCPUShare is the share of CPU time that other programs may always take without delaying
	// a repeat: one hundredth of a second in a look at two CPUs.
	quietCPUShare = 0.05
	// maxPause is the longest time that the plan waits for other programs to release the CPUs.
	maxPause = 2 * time.Second
	// minRest is the first wait before a repeat. Each spoiled repeat doubles it, up to maxRest.
	minRest = 500 * time.Millisecond
	maxRest = 32 * time.Second
	// restsWithoutQuiet is the number of rests, at the end of the plan, after which a trial is
	// repeated although the machine is not quiet: some machines are never quiet.
	restsWithoutQuiet = 4
)

// trialQueue decides what a run does next. It is a pure state machine: the caller measures trials,
// watches the machine, and reports the outcome.
//
//	plan ──> measured ──────────────────────────────────────────> recorded
//	            │  ▲
//	    spoiled │  │ other programs have released the CPUs
//	            ▼  │
//	          waiting ─── the patience is used up ──> recorded as refused
//
// Trials of the plan keep their order. After a spoiled trial the plan pauses, since the next trial
// would probably be spoiled, too. Waiting trials are measured again between the plan's trials, as
// soon as the machine is quiet, near the trials that they are compared with. At the end of the
// plan, the rest wait for a quiet machine. The trial with the fewest discarded measurements comes
// first, so that one long trial cannot use up the time of the others. Among equals, the trial that
// has waited longest comes first.
type trialQueue struct {
	planned  []int // trials whose turn has not come
	back     []setBackTrial
	patience Patience

	onPlan, used time.Duration // the time spent on the plan's trials, and on waiting and repeating
	taken        float64       // CPU time share of other programs, in the last trial or look
	passed       float64       // the same share in the last trial that was not spoiled
	spoiled      time.Time     // when the last spoiled trial ended
	rest         time.Duration
	// pause is the time that the plan waits after a spoiled trial. It is halved when the wait did
	// not help, and doubled when a trial passes, so that waiting leaves time for repeats.
	pause time.Duration
}

// setBackTrial is a trial that waits to be measured again.
type setBackTrial struct {
	last  *record.Record
	taken float64 // CPU time share of other programs while the trial ran
}

// newQueue returns the queue of a run. took is the time of the trials that are already done. It
// also takes over trials that were waiting to be measured again before an interruption.
func newQueue(run *record.Run, trials int, took time.Duration, patience Patience) *trialQueue {
	q := &trialQueue{patience: patience, onPlan: took, rest: minRest, pause: maxPause}
	for _, r := range run.SetBackTrials() {
		if r.Trial < trials {
			q.back = append(q.back, setBackTrial{last: r, taken: r.Host.TakenByOthers()})
		}
	}
	for number := range trials {
		if !run.Done(number) && q.lastMeasurement(number) == nil {
			q.planned = append(q.planned, number)
		}
	}
	return q
}

// A queueStep says what to do next, and with which trial.
type queueStep struct {
	do    stepAction
	trial int
}

type stepAction int

const (
	measurePlanned  stepAction = iota
	repeatSetBack              // measure a waiting trial again
	watchMachine               // watch the machine for a moment
	recordAsSpoiled            // record a waiting trial in its spoiled state
	endRun
)

// nextStep returns the next step. It changes nothing: the caller reports the outcome of the step.
func (q *trialQueue) nextStep(now time.Time) queueStep {
	if len(q.back) == 0 {
		return q.nextPlannedStep(queueStep{do: endRun})
	}
	first := slices.MinFunc(q.back, func(a, b setBackTrial) int { return len(a.last.Attempts) - len(b.last.Attempts) }).last.Trial
	if q.patienceLeft() <= 0 {
		return q.nextPlannedStep(queueStep{recordAsSpoiled, first})
	}
	quiet, since := q.isQuiet(), now.Sub(q.spoiled)
	switch {
	case quiet && since >= q.rest:
		return queueStep{repeatSetBack, first}
	case !quiet && since < q.pause:
		return queueStep{do: watchMachine}
	case len(q.planned) == 0 && since >= restsWithoutQuiet*q.rest:
		return queueStep{repeatSetBack, first}
	default:
		return q.nextPlannedStep(queueStep{do: watchMachine})
	}
}

// nextPlannedStep returns the step that measures the plan's next trial. If no trial is left, it
// returns the step otherwise.
func (q *trialQueue) nextPlannedStep(otherwise queueStep) queueStep {
	if len(q.planned) > 0 {
		return queueStep{measurePlanned, q.planned[0]}
	}
	return otherwise
}

// together returns a trial, and those planned trials that are measured with it.
func (q *trialQueue) together(trial int, isWith func(other int) bool) []int {
	numbers := []int{trial}
	for _, other := range q.planned {
		if other != trial && isWith(other) {
			numbers = append(numbers, other)
		}
	}
	return numbers
}

// isQuiet reports whether other programs now take at most as much CPU time as in the last trial
// that passed, or at most half as much as in the worst spoiled trial. Thus the judge's verdicts
// decide what is quiet.
func (q *trialQueue) isQuiet() bool {
	most := 0.0
	for _, b := range q.back {
		most = max(most, b.taken)
	}
	return q.taken <= max(quietCPUShare, q.passed, most/2)
}

// patienceLeft returns the rest of the patience.
func (q *trialQueue) patienceLeft() time.Duration { return q.patience.allowedTime(q.onPlan) - q.used }

// noteLook notes the CPU share that other programs took during a look that ended now.
func (q *trialQueue) noteLook(now time.Time, taken float64) {
	q.taken = taken
	q.used += lookDuration
	if !q.isQuiet() && now.Sub(q.spoiled) >= q.pause {
		q.pause /= 2
	}
}

// noteTrialEnd notes a trial that ended now, and whether it was spoiled.
func (q *trialQueue) noteTrialEnd(now time.Time, r *record.Record, spoiled bool) {
	q.taken = r.Host.TakenByOthers()
	again := q.removeTrial(r.Trial)
	if again {
		q.used += time.Duration(r.TookNS)
	} else {
		q.onPlan += time.Duration(r.TookNS)
	}
	switch {
	case spoiled && again:
		q.rest = min(2*q.rest, maxRest)
	case again:
		q.rest = minRest
	}
	if spoiled {
		q.spoiled = now
		q.back = append(q.back, setBackTrial{r, q.taken})
		return
	}
	q.passed = q.taken
	q.pause = min(2*max(q.pause, lookDuration), maxPause)
}

// removeTrial removes a trial from the queue, and reports whether it waited to be measured again.
func (q *trialQueue) removeTrial(trial int) (again bool) {
	n := len(q.back)
	q.back = slices.DeleteFunc(q.back, func(b setBackTrial) bool { return b.last.Trial == trial })
	q.planned = slices.DeleteFunc(q.planned, func(planned int) bool { return planned == trial })
	return len(q.back) < n
}

// lastMeasurement returns the last measurement of a trial that waits to be measured again, or nil.
func (q *trialQueue) lastMeasurement(trial int) *record.Record {
	for _, b := range q.back {
		if b.last.Trial == trial {
			return b.last
		}
	}
	return nil
}

func (q *trialQueue) waitingEvent() live.Waiting {
	return live.Waiting{Trials: len(q.back), Used: q.used, Patience: q.patience.allowedTime(q.onPlan)}
}

// Patience bounds the time that a run spends on waiting for a quiet machine and on repeating
// trials that only the machine spoiled. A repeat that has begun is finished.
type Patience struct {
	Time  time.Duration
	Share float64 // added to Time: a share of the run's whole time, below 1
}

// DefaultPatience is a quarter of the run's time and 10 seconds more. Other programs often work for
// some seconds, so a short run needs these 10 seconds.
var DefaultPatience = Patience{Time: 10 * time.Second, Share: 0.25}

// allowedTime returns the patience once the plan's trials have taken the given time.
func (p Patience) allowedTime(planned time.Duration) time.Duration {
	const longest = 1 << 61 // nanoseconds, 73 years: without it, a share near 1 would overflow
	return min(p.Time, longest) + time.Duration(min(p.Share/(1-p.Share)*float64(planned), longest))
}

// errPatience lists the texts that Set accepts.
var errPatience = errors.New("want a time (2m), a share below 100% of the run's time (10%), both (25%+10s), or 0 to measure no trial again")

// Set reads a share of the run's time, a time, or a sum of both, as in 25%+10s.
func (p *Patience) Set(text string) error {
	percent, rest, isShare := strings.Cut(text, "%")
	var read Patience
	if isShare {
		share, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(share >= 0 && share < 100) {
			return errPatience
		}
		read.Share = share / 100
		if rest == "" {
			*p = read
			return nil
		}
		if text, isShare = strings.CutPrefix(rest, "+"); !isShare {
			return errPatience
		}
	}
	limit, err := time.ParseDuration(text)
	if err != nil || limit < 0 {
		return errPatience
	}
	read.Time = limit
	*p = read
	return nil
}

// String returns the value as Set reads it.
func (p *Patience) String() string {
	if p.Share == 0 {
		return p.Time.String()
	}
	digits := 3
	if p.Share > 0.99 { // more digits, so that the text does not become 100 %
		digits = 8
	}
	text := strconv.FormatFloat(100*p.Share, 'g', digits, 64) + "%"
	if p.Time > 0 {
		text += "+" + p.Time.String()
	}
	return text
}

// Type returns pflag's name for the value.
func (p *Patience) Type() string { return "share" }

// Doubled returns a value that gives about twice the time.
func (p Patience) Doubled() string {
	twice := Patience{Time: 2 * min(p.Time, math.MaxInt64/2), Share: 2 * p.Share / (1 + p.Share)}
	if p == (Patience{}) {
		twice = DefaultPatience
	}
	return twice.String()
}
