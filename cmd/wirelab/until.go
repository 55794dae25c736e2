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
	"wirelab.dev/internal/run/plan"
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
	return plan.Until(s, plan.Goal{Width: float64(u.goal), Most: u.most.repeats, Time: u.most.time})
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

const (
	// leastMost is more than the repeats before the first look.
	leastMost = 4
	// mostRepeats bounds what a slip of the finger plans.
	mostRepeats = 1000
)

// Set reads the flag. A time alone leaves the usual number of repeats.
func (m *mostFlag) Set(text string) error {
	wrong := fmt.Errorf("want repeats, from %d to %d, a time, as in 20m, or both, as in 30,20m", leastMost, mostRepeats)
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
	if read.repeats < leastMost || read.repeats > mostRepeats {
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
