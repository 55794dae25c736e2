package record

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Stages is a course of a rate, written 30s:100,2m:500,30s:0: in each stage, the rate changes evenly to
// the stage's rate in requests per second. Empty means none.
type Stages string

// A Stage is one stage of a course.
type Stage struct {
	Length time.Duration `json:"length_ns"`
	From   float64       `json:"from"` // requests per second at its beginning
	To     float64       `json:"to"`   // and at its end
}

// Expected returns the number of requests that are due in the stage.
func (s Stage) Expected() float64 { return s.Length.Seconds() * (s.From + s.To) / 2 }

const (
	maxStages    = 100
	maxStageRate = 1e9
	maxStageTime = 240 * time.Hour
)

// Parse returns the stages of a course that begins at a rate.
func (s Stages) Parse(from float64) ([]Stage, error) {
	var all []Stage
	for text := range strings.SplitSeq(string(s), ",") {
		length, rate, found := strings.Cut(strings.TrimSpace(text), ":")
		took, notTime := time.ParseDuration(length)
		to, notRate := strconv.ParseFloat(rate, 64)
		switch {
		case strings.HasSuffix(rate, "c"):
			return nil, fmt.Errorf("stage %d: found %q: a stage has a rate; for numbers of clients write --steps, as in --steps 10,50", len(all)+1, text)
		case !found || notTime != nil || notRate != nil || took <= 0 || took > maxStageTime || !(to >= 0 && to <= maxStageRate):
			return nil, fmt.Errorf("stage %d: found %q: want a time and a rate in requests per second, as in 30s:100", len(all)+1, text)
		}
		all = append(all, Stage{Length: took, From: from, To: to})
		from = to
	}
	switch most, length := highest(all), Length(all); {
	case len(all) > maxStages:
		return nil, fmt.Errorf("found %d stages: want at most %d", len(all), maxStages)
	case most == 0:
		return nil, fmt.Errorf("found only rates of 0: no requests would be sent: want a rate above 0, as in 30s:100")
	case length > maxStageTime:
		return nil, fmt.Errorf("the stages last %v: want at most %v", length, maxStageTime)
	}
	return all, nil
}

func highest(all []Stage) (most float64) {
	for _, s := range all {
		most = max(most, s.From, s.To)
	}
	return most
}

// Length returns the time of all stages.
func Length(all []Stage) (sum time.Duration) {
	for _, s := range all {
		sum += s.Length
	}
	return sum
}

// RateStages returns the stages of a load whose rate changes, or nil. Their lengths are in proportion
// to the stages as they were written, and have the load's duration together.
func (l Load) RateStages() []Stage {
	length := time.Duration(l.DurationNS)
	if l.RampTo > 0 {
		return []Stage{{Length: length, From: l.RatePerSecond, To: l.RampTo}}
	}
	if l.Stages == "" {
		return nil
	}
	all, err := l.Stages.Parse(l.RatePerSecond)
	if err != nil { // the text was checked when it was written; a file may be damaged
		return nil
	}
	sum := Length(all)
	for i := range all {
		share := float64(all[i].Length) / float64(sum)
		all[i].Length = time.Duration(math.Round(share * float64(length)))
	}
	return all
}

// RateAt returns the rate of the load's schedule at a time after the window's begin.
func (l Load) RateAt(at time.Duration) float64 {
	rate := l.RatePerSecond
	for _, s := range l.RateStages() {
		if at < s.Length {
			return s.From + (s.To-s.From)*float64(max(0, at))/float64(s.Length)
		}
		at, rate = at-s.Length, s.To
	}
	return rate
}

// HighestRate returns the highest rate of the load's schedule, or 0 if the load has none.
func (l Load) HighestRate() float64 { return max(l.RatePerSecond, highest(l.RateStages())) }
