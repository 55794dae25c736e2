package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis"
)

// untilFlags are --until and --at-most.
type untilFlags struct {
	goal goalFlag
	most mostFlag
}

func (u *untilFlags) register(cmd *cobra.Command) {
	u.most = mostFlag{repeats: usualMost}
	f := cmd.Flags()
	f.Var(&u.goal, "until", "repeat until the `verdict`: every comparison of the mean is decided; or, as in 3%, until each cell's mean is known so well")
	f.Var(&u.most, "at-most", "where --until ends unanswered: after so many `repeats`, a time, or whichever comes first, as in 30,20m")
	complete(cmd, "until", []string{verdictGoal, "3%", "5%", "10%"})
	complete(cmd, "at-most", []string{"30", "100", "20m", "30,20m"})
}

// usualMost bounds the repeats of --until. More find less and less of what is left.
const usualMost = 30

// read returns what the run repeats for, with its looks; nil without --until.
func (u *untilFlags) read(cmd *cobra.Command, s *scenario.Scenario) (*record.Until, error) {
	if !cmd.Flags().Changed("until") {
		if cmd.Flags().Changed("at-most") {
			return nil, errors.New("--at-most: it bounds the repeats of --until: give that too, as in --until verdict")
		}
		return nil, nil
	}
	goal := &record.Until{Width: float64(u.goal), TimeNS: int64(u.most.time)}
	first := 0
	for _, p := range s.Parts {
		if isRepeated(goal)(p) && (first == 0 || p.Repeats < first) {
			first = p.Repeats
		}
	}
	if first == 0 {
		return nil, errors.New("--until: no part that is measured can answer it: verdict takes two variants or more, a width one, as in --until 3%")
	}
	first = max(first, leastRepeats)
	if u.most.repeats <= first {
		return nil, fmt.Errorf("--at-most %d: want more repeats than the %d that come before the first look", u.most.repeats, first)
	}
	goal.Looks, goal.Begun = analysis.Looks(first, u.most.repeats), 1
	return goal, nil
}

// leastRepeats is the fewest that give a verdict or an interval.
const leastRepeats = 3

// isRepeated tells the parts that can bring a run nearer to its goal.
func isRepeated(u *record.Until) func(scenario.Part) bool {
	return func(p scenario.Part) bool { return p.Profile == "" && (u.Width > 0 || len(p.Stacks) > 1) }
}

// planFor is the plan of the looks that have begun, or of all of a scenario's trials where
// nothing is looked for.
func planFor(s *scenario.Scenario, u *record.Until) []scenario.Planned {
	if u == nil {
		return s.Plan()
	}
	return s.PlanLooks(each(u.Looks[:u.Begun], func(l record.Look) int { return l.Repeats }), repeatedBy(s, u))
}

// repeatedBy tells the cells that a look repeats: those of parts that can bring the run
// nearer to its goal, and of claims that are still open.
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

// sayGoal says what a run repeats for.
func sayGoal(u *record.Until) string {
	if u.Claims {
		return "every claim stands"
	}
	if u.Width > 0 {
		return fmt.Sprintf("each mean is known within %.3g %%", 100*u.Width)
	}
	return "every comparison of the mean is decided"
}

// look looks at a run whose plan has been measured, and reports whether to go on. It says
// what it found.
func (a *app) look(run *record.Run, s *scenario.Scenario) (goesOn bool, err error) {
	u := run.Manifest.Until
	if u == nil {
		return false, nil
	}
	judged, took, err := a.judge(run)
	if err != nil {
		return false, err
	}
	found, again, err := analysis.TakeLook(&run.Manifest, judged.Records)
	if err != nil {
		return false, err
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
		longer := *u
		longer.Begun++
		trials, more := len(planFor(s, u)), len(planFor(s, &longer))
		if u.TimeNS > 0 && took+took*int64(more-trials)/int64(trials) > u.TimeNS {
			u.Ended = record.EndedByTime
			if found, _, err = analysis.TakeLook(&run.Manifest, judged.Records); err != nil { // at the level that this leaves it
				return false, err
			}
		}
	}
	fmt.Fprintln(a.stderr, sayLook(u))
	return u.Ended == "", nil
}

// judge judges the trials of a run, and says how long they took, with all waiting.
func (a *app) judge(run *record.Run) (judged analysis.Judged, tookNS int64, err error) {
	var records []*record.Record
	for r, err := range run.Records() {
		if err != nil {
			return analysis.Judged{}, 0, err
		}
		records = append(records, &r)
		tookNS += r.TookNS
		for _, attempt := range r.Attempts {
			tookNS += attempt.TookNS
		}
	}
	if run.Manifest.WaitedNS != nil {
		tookNS += *run.Manifest.WaitedNS
	}
	return analysis.Judge(records, a.limits), tookNS, nil
}

// sayLook says what the last look found, and what comes of it.
func sayLook(u *record.Until) string {
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
		return fmt.Sprintf("%s; on to %d repeats", text, u.Looks[u.Begun].Repeats)
	case record.EndedNothing:
		return text + "; more repeats would decide none of the others"
	case record.EndedByTime:
		return fmt.Sprintf("%s; the time is too short for %d repeats", text, u.Looks[u.Begun].Repeats)
	}
	return text
}

// goalFlag is a width; zero stands for the verdict.
type goalFlag float64

const verdictGoal = "verdict"

// Set reads the flag.
func (g *goalFlag) Set(text string) error {
	if text == verdictGoal {
		*g = 0
		return nil
	}
	percent, isShare := strings.CutSuffix(text, "%")
	width, err := strconv.ParseFloat(percent, 64)
	if err != nil || !isShare || !(width >= 0.1 && width <= 100) {
		return errors.New("want verdict, or how well each mean is to be known, from 0.1% to 100%, as in 3%")
	}
	*g = goalFlag(width / 100)
	return nil
}

// String is the value as Set reads it; nothing for what was not given.
func (g *goalFlag) String() string {
	if *g == 0 {
		return ""
	}
	return strconv.FormatFloat(100*float64(*g), 'g', 3, 64) + "%"
}

// Type is pflag's name for the value; the help takes the one in backquotes.
func (g *goalFlag) Type() string { return "goal" }

// mostFlag is a number of repeats, and a time, where that is not zero.
type mostFlag struct {
	repeats int
	time    time.Duration
}

// mostRepeats bounds what a slip of the finger plans.
const mostRepeats = 1000

// Set reads the flag. A time alone leaves the usual number of repeats.
func (m *mostFlag) Set(text string) error {
	wrong := fmt.Errorf("want repeats, from 4 to %d, a time, as in 20m, or both, as in 30,20m", mostRepeats)
	read := mostFlag{repeats: usualMost}
	count, limit, both := strings.Cut(text, ",")
	repeats, err := strconv.Atoi(count)
	if err == nil {
		read.repeats = repeats
	} else if limit, both = text, true; strings.Contains(text, ",") {
		return wrong
	}
	if both {
		if read.time, err = time.ParseDuration(limit); err != nil || read.time <= 0 {
			return wrong
		}
	}
	if read.repeats <= leastRepeats || read.repeats > mostRepeats {
		return wrong
	}
	*m = read
	return nil
}

// String is the value as Set reads it.
func (m *mostFlag) String() string {
	text := strconv.Itoa(m.repeats)
	if m.time > 0 {
		text += "," + m.time.String()
	}
	return text
}

// Type is pflag's name for the value; the help takes the one in backquotes.
func (m *mostFlag) Type() string { return "repeats" }
