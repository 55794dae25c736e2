package plan

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/check"
	"wirelab.dev/internal/run/lab"
)

// leastRepeats is the smallest number of repeats that give a verdict or an interval.
const leastRepeats = 3

// Until returns the looks that a scenario takes towards a target.
func Until(s *scenario.Scenario, target Target, most Most) (*record.Until, error) {
	u := &record.Until{Width: float64(target), TimeNS: int64(most.Time)}
	first := 0
	for _, p := range s.Parts {
		if isRepeated(u)(p) && (first == 0 || p.Repeats < first) {
			first = p.Repeats
		}
	}
	if first == 0 {
		return nil, errors.New("--until: no measured part can reach this goal: verdict needs at least two variants, a width such as --until 3% at least one")
	}
	first = max(first, leastRepeats)
	if most.Repeats <= first {
		return nil, fmt.Errorf("--at-most %d: want more repeats than the %d that come before the first look", most.Repeats, first)
	}
	u.Looks, u.Begun = matrix.Looks(first, most.Repeats), 1
	return u, nil
}

// isRepeated returns a filter of the parts whose repeats bring a run nearer to its goal.
func isRepeated(u *record.Until) func(scenario.Part) bool {
	return func(p scenario.Part) bool { return p.Profile == "" && (u.Width > 0 || len(p.Stacks) > 1) }
}

// Trials returns the trials of the looks that have begun; without looks, all trials.
func Trials(s *scenario.Scenario, u *record.Until) []scenario.Planned {
	if u == nil {
		return s.Plan()
	}
	return atLook(s, u, u.Begun)
}

// MostTrials returns the trials of all looks, if all are taken.
func MostTrials(s *scenario.Scenario, u *record.Until) []scenario.Planned {
	if u == nil {
		return s.Plan()
	}
	return atLook(s, u, len(u.Looks))
}

// atLook returns the trials up to a look, counted from 1.
func atLook(s *scenario.Scenario, u *record.Until, look int) []scenario.Planned {
	repeats := lists.Map(u.Looks[:look], func(l record.Look) int { return l.Repeats })
	return s.PlanLooks(repeats, repeatedBy(s, u))
}

// repeatedBy returns a filter of the cells that a look repeats: those of isRepeated's parts.
func repeatedBy(s *scenario.Scenario, u *record.Until) func(look int, c scenario.Cell) bool {
	if !u.Claims {
		repeated := map[string]bool{}
		for _, p := range s.Parts {
			repeated[p.Name] = isRepeated(u)(p)
		}
		return func(_ int, c scenario.Cell) bool { return repeated[c.Part] }
	}
	needed := make([]func(scenario.Cell) bool, len(u.Looks))
	return func(look int, c scenario.Cell) bool {
		if look == 0 {
			return true
		}
		if needed[look] == nil {
			needed[look] = s.NeededBy(u.Looks[look-1].Again)
		}
		return needed[look](c)
	}
}

// DescribeGoal describes the goal of a run's repeats.
func DescribeGoal(u *record.Until) string {
	if u.Claims {
		return "every claim stands"
	}
	if u.Width > 0 {
		return fmt.Sprintf("each mean is known within %.3g %%", 100*u.Width)
	}
	return "every comparison of the mean is decided"
}

// A Course measures a scenario, look after look if it has looks.
type Course struct {
	Run      *record.Run
	Scenario *scenario.Scenario
	Limits   check.Limits // for judging the trials at each look
	// MeasureTrials measures those of the trials that have no record.
	MeasureTrials func(trials []scenario.Planned) error
	// Say prints what a look found.
	Say func(line string)
}

// Measure takes one look after another until the goal is reached or cannot be.
func (c *Course) Measure() error {
	for {
		u := c.Run.Manifest.Until
		if err := c.MeasureTrials(Trials(c.Scenario, u)); err != nil || u == nil {
			return err
		}
		if err := c.look(u); err != nil || u.Ended != "" {
			return err
		}
		u.Begun++
		if err := c.Run.Replan(lab.Order(Trials(c.Scenario, u))); err != nil {
			return err
		}
	}
}

// look judges what was measured, and says what it found and why the run ends, if it does.
func (c *Course) look(u *record.Until) error {
	judged, took, err := c.judge()
	if err != nil {
		return err
	}
	found, again, err := compare.TakeLook(&c.Run.Manifest, judged.Records)
	if err != nil {
		return err
	}
	now := &u.Looks[u.Begun-1]
	now.Open, now.Of, now.Again = &found.Open, &found.Of, again
	u.Ended = ""
	switch {
	case found.Of == 0 || u.Claims && found.Open > 0 && len(again) == 0:
		u.Ended = record.EndedNothing
	case found.Open == 0:
		u.Ended = record.EndedAnswered
	case u.Begun == len(u.Looks):
		u.Ended = record.EndedRepeats
	default:
		trials, more := len(Trials(c.Scenario, u)), len(atLook(c.Scenario, u, u.Begun+1))
		if u.TimeNS > 0 && took+took*int64(more-trials)/int64(trials) > u.TimeNS {
			u.Ended = record.EndedByTime
			if found, _, err = compare.TakeLook(&c.Run.Manifest, judged.Records); err != nil { // the last look has another level
				return err
			}
		}
	}
	c.Say(describeLook(u))
	return nil
}

// judge judges the trials of the run, and returns how long they took, with all waiting.
func (c *Course) judge() (judged analysis.Judged, tookNS int64, err error) {
	var records []*record.Record
	for r, err := range c.Run.Records() {
		if err != nil {
			return analysis.Judged{}, 0, err
		}
		records = append(records, &r)
		tookNS += r.TookNS
		for _, attempt := range r.Attempts {
			tookNS += attempt.TookNS
		}
	}
	if c.Run.Manifest.WaitedNS != nil {
		tookNS += *c.Run.Manifest.WaitedNS
	}
	return analysis.Judge(records, c.Limits), tookNS, nil
}

func describeLook(u *record.Until) string {
	now := u.Looks[u.Begun-1]
	what := "comparisons decided"
	if u.Claims {
		what = "claims decided"
	}
	if u.Width > 0 {
		what = fmt.Sprintf("means known within %.3g %%", 100*u.Width)
	}
	text := fmt.Sprintf("look %d of at most %d, after %d repeats: %d of %d %s", u.Begun, len(u.Looks), now.Repeats, *now.Of-*now.Open, *now.Of, what)
	switch u.Ended {
	case "":
		return fmt.Sprintf("%s; continuing to %d repeats", text, u.Looks[u.Begun].Repeats)
	case record.EndedNothing:
		return text + "; more repeats would decide none of the others"
	case record.EndedByTime:
		return fmt.Sprintf("%s; the time is too short for %d repeats", text, u.Looks[u.Begun].Repeats)
	}
	return text
}

// UsualMost bounds the repeats of --until. More repeats find ever less.
const UsualMost = 30

// A Target is the wanted precision of each mean, as a share; zero stands for Verdict.
type Target float64

// Verdict is the text of the Target to decide every comparison of the mean.
const Verdict = "verdict"

// Set reads a Target.
func (g *Target) Set(text string) error {
	if text == Verdict {
		*g = 0
		return nil
	}
	percent, isShare := strings.CutSuffix(text, "%")
	width, err := strconv.ParseFloat(percent, 64)
	if err != nil || !isShare || !(width >= 0.1 && width <= 100) {
		return errors.New("want verdict, or the precision of each mean, from 0.1% to 100%, as in 3%")
	}
	*g = Target(width / 100)
	return nil
}

// String returns the value as Set reads it, and "" for Verdict, the zero value.
func (g *Target) String() string {
	if *g == 0 {
		return ""
	}
	return strconv.FormatFloat(100*float64(*g), 'g', 3, 64) + "%"
}

// Type returns pflag's name for the value.
func (g *Target) Type() string { return "goal" }

// Most bounds a run: a number of repeats, and a time, if that is not zero.
type Most struct {
	Repeats int
	Time    time.Duration
}

const (
	// leastMost is more than the repeats before the first look.
	leastMost = 4
	// mostRepeats protects from typing errors.
	mostRepeats = 1000
)

// Set reads a Most. A time alone leaves the usual number of repeats.
func (m *Most) Set(text string) error {
	wrong := fmt.Errorf("want repeats, from %d to %d, a time, as in 20m, or both, as in 30,20m", leastMost, mostRepeats)
	read := Most{Repeats: UsualMost}
	count, limit, both := strings.Cut(text, ",")
	repeats, err := strconv.Atoi(count)
	if err == nil {
		read.Repeats = repeats
	} else if limit, both = text, true; strings.Contains(text, ",") {
		return wrong
	}
	if both {
		if read.Time, err = time.ParseDuration(limit); err != nil || read.Time <= 0 {
			return wrong
		}
	}
	if read.Repeats < leastMost || read.Repeats > mostRepeats {
		return wrong
	}
	*m = read
	return nil
}

// String returns the value as Set reads it.
func (m *Most) String() string {
	text := strconv.Itoa(m.Repeats)
	if m.Time > 0 {
		text += "," + m.Time.String()
	}
	return text
}

// Type returns pflag's name for the value.
func (m *Most) Type() string { return "repeats" }
