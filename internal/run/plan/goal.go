package plan

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// UsualMost bounds the repeats of --until. More repeats find ever less.
const UsualMost = 30

// A Target is how well each mean is to be known, as a share; zero stands for Verdict.
type Target float64

// Verdict is the Target that every comparison of the mean is decided.
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
		return errors.New("want verdict, or how well each mean is to be known, from 0.1% to 100%, as in 3%")
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
	// mostRepeats bounds what a slip of the finger plans.
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
