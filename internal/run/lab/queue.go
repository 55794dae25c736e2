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
	// lookFor is the time of one look: the kernel counts CPU time in hundredths of a second.
	lookFor = 100 * time.Millisecond
	// alwaysQuiet is the share of CPU time that others may always take without delaying a repeat:
	// one hundredth of a second in a look at two CPUs.
	alwaysQuiet = 0.05
	// longestPause is the longest stop of the plan for other programs to release the CPUs.
	longestPause = 2 * time.Second
	// firstRest is the time to a repeat. It doubles with each that is spoiled, up to longestRest.
	firstRest   = 500 * time.Millisecond
	longestRest = 32 * time.Second
	// restsWithoutQuiet is the number of rests, at the end of the plan, after which a trial
	// is repeated without a quiet moment: some machines have none, and trials pass on them.
	restsWithoutQuiet = 4
)

// queue decides what a run does next. It is a pure state machine: the caller measures and
// looks, and reports the outcome.
//
//	plan ──> measured ──────────────────────────────────────────> recorded
//	            │  ▲
//	    spoiled │  │ others have let go of the CPUs
//	            ▼  │
//	          set back ── the patience is used up ──> recorded as refused
//
// Trials of the plan keep their order. After a spoiled trial the plan pauses, since the next
// one would be spoiled too. Set-back trials are repeated between the plan's trials as soon as
// the machine is quiet, near the trials that they are compared with; those that are left at
// the end of the plan wait for a quiet machine. The trial with the fewest discarded
// measurements goes first, so that a long one that is always spoiled does not use up the
// others' time; among equals, the one that was set back first.
type queue struct {
	planned  []int // trials whose turn has not come
	back     []setBack
	patience Patience

	onPlan, used time.Duration // spent on the plan's trials, and of the patience
	taken        float64       // CPU time share of others, in the last trial or look
	passed       float64       // the same in the last trial that was not spoiled
	spoiled      time.Time     // when the last spoiled trial ended
	rest         time.Duration
	// pause is the time that the plan stops: halved when it was in vain, doubled when a trial
	// passes, so that waiting does not use up the time that repeats need.
	pause time.Duration
}

// setBack is a trial that is to be measured again.
type setBack struct {
	last  *record.Record
	taken float64 // CPU time share of others while it ran
}

// newQueue returns the queue of a run. Some trials may be done, in the given time; some may
// have been set back before an interruption.
func newQueue(run *record.Run, trials int, took time.Duration, patience Patience) *queue {
	q := &queue{patience: patience, onPlan: took, rest: firstRest, pause: longestPause}
	for _, r := range run.SetBackTrials() {
		if r.Trial < trials {
			q.back = append(q.back, setBack{last: r, taken: r.Host.TakenByOthers()})
		}
	}
	for number := range trials {
		if !run.Done(number) && q.setBack(number) == nil {
			q.planned = append(q.planned, number)
		}
	}
	return q
}

// A step says what to do next, and with which trial.
type step struct {
	do    action
	trial int
}

type action int

const (
	measure action = iota
	repeat         // measure a trial that was set back
	look           // watch the machine for a moment
	refuse         // record a set-back trial in its spoiled state
	finish
)

// next returns the next step. Nothing changes until the caller reports the outcome.
func (q *queue) next(now time.Time) step {
	if len(q.back) == 0 {
		return q.onward(step{do: finish})
	}
	first := slices.MinFunc(q.back, func(a, b setBack) int { return len(a.last.Attempts) - len(b.last.Attempts) }).last.Trial
	if q.left() <= 0 {
		return q.onward(step{refuse, first})
	}
	quiet, since := q.isQuiet(), now.Sub(q.spoiled)
	switch {
	case quiet && since >= q.rest:
		return step{repeat, first}
	case !quiet && since < q.pause:
		return step{do: look}
	case len(q.planned) == 0 && since >= restsWithoutQuiet*q.rest:
		return step{repeat, first}
	default:
		return q.onward(step{do: look})
	}
}

// onward returns the step of the plan's next trial, or otherwise if there is none.
func (q *queue) onward(otherwise step) step {
	if len(q.planned) > 0 {
		return step{measure, q.planned[0]}
	}
	return otherwise
}

// isQuiet reports whether others took no more of the CPU time than in the last trial that passed,
// or less than half of the most that spoiled one. So the judge decides what is quiet, not a limit.
func (q *queue) isQuiet() bool {
	most := 0.0
	for _, b := range q.back {
		most = max(most, b.taken)
	}
	return q.taken <= max(alwaysQuiet, q.passed, most/2)
}

// left returns the rest of the patience.
func (q *queue) left() time.Duration { return q.patience.after(q.onPlan) - q.used }

// looked notes the share that others took during a look that ended now.
func (q *queue) looked(now time.Time, taken float64) {
	q.taken = taken
	q.used += lookFor
	if !q.isQuiet() && now.Sub(q.spoiled) >= q.pause {
		q.pause /= 2
	}
}

// ended notes a trial that ended now, and whether it was spoiled.
func (q *queue) ended(now time.Time, r *record.Record, spoiled bool) {
	q.taken = r.Host.TakenByOthers()
	again := q.leave(r.Trial)
	if again {
		q.used += time.Duration(r.TookNS)
	} else {
		q.onPlan += time.Duration(r.TookNS)
	}
	switch {
	case spoiled && again:
		q.rest = min(2*q.rest, longestRest)
	case again:
		q.rest = firstRest
	}
	if spoiled {
		q.spoiled = now
		q.back = append(q.back, setBack{r, q.taken})
		return
	}
	q.passed = q.taken
	q.pause = min(2*max(q.pause, lookFor), longestPause)
}

// leave removes a trial from the queue, and reports whether it had been set back.
func (q *queue) leave(trial int) (again bool) {
	n := len(q.back)
	q.back = slices.DeleteFunc(q.back, func(b setBack) bool { return b.last.Trial == trial })
	q.planned = slices.DeleteFunc(q.planned, func(planned int) bool { return planned == trial })
	return len(q.back) < n
}

// setBack returns the last measurement of a trial that was set back, or nil.
func (q *queue) setBack(trial int) *record.Record {
	for _, b := range q.back {
		if b.last.Trial == trial {
			return b.last
		}
	}
	return nil
}

func (q *queue) waiting() live.Waiting {
	return live.Waiting{Trials: len(q.back), Used: q.used, Patience: q.patience.after(q.onPlan)}
}

// Patience bounds the time that a run spends on trials that only the machine spoiled: waiting and
// repeating. A repeat that has begun is finished.
type Patience struct {
	Time  time.Duration
	Share float64 // of the run's time, patience included: below 1; comes on top of Time
}

// UsualPatience is a quarter of the run's time and 10 seconds more. Neighbours work for seconds at
// a time, so a short run needs the seconds.
var UsualPatience = Patience{Time: 10 * time.Second, Share: 0.25}

// after returns the patience once the plan's trials have taken the given time.
func (p Patience) after(planned time.Duration) time.Duration {
	const longest = 1 << 61 // nanoseconds, 73 years: with a share near 1 no integer holds it
	return min(p.Time, longest) + time.Duration(min(p.Share/(1-p.Share)*float64(planned), longest))
}

// errPatience says which texts Set reads.
var errPatience = errors.New("want a time, as in 2m, a share of the run's time below 100%, as in 10%, both, as in 25%+10s, or 0 to measure nothing again")

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
	if p.Share > 0.99 { // which must not become 100 %
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

// More returns a value that gives about twice the time.
func (p Patience) More() string {
	twice := Patience{Time: 2 * min(p.Time, math.MaxInt64/2), Share: 2 * p.Share / (1 + p.Share)}
	if p == (Patience{}) {
		twice = UsualPatience
	}
	return twice.String()
}
