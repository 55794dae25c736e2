package matrix

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// A Search holds the highest request rate that keeps a goal. The other figures of the cell were
// measured at this rate.
type Search struct {
	Percentile float64      `json:"percentile"` // percentile of the response time in the goal
	LimitUS    float64      `json:"limit_us"`
	Kept       Figure       `json:"kept_rps" csv:"kept_rps"`           // the highest rate that kept the goal
	Missed     Figure       `json:"missed_rps" csv:"missed_rps"`       // the lowest rate above kept_rps that missed the goal
	Threshold  Figure       `json:"threshold_rps" csv:"threshold_rps"` // the rate at which half of the tries keep the goal; the interval is over trials, or over tries if there are fewer than three trials
	Steps      []SearchStep `json:"steps"`                             // tries by ascending rate
	Knee       RateKnee     `json:"knee" csv:"*"`
	Why        string       `json:"why"` // why the search ended although kept_rps and missed_rps were far apart; empty if they were close
}

// A SearchStep is one try of a rate.
type SearchStep struct {
	Repeat       int      `json:"repeat"`
	Offered      float64  `json:"offered_rps"`
	Achieved     float64  `json:"achieved_rps"`
	Microseconds *float64 `json:"figure_us" jsonschema:"nullable"` // the goal's percentile; null without answers, or if fewer than ten requests lie beyond it
	Kept         bool     `json:"kept"`
	Why          string   `json:"why"` // why the rate was not kept; empty if it was kept
}

// A RateKnee is the rate from which the goal's percentile begins to grow.
type RateKnee struct {
	Found      bool     `json:"found"`                                              // whether there is a knee; if not, reason says why
	Rate       *float64 `json:"rate_rps" csv:"knee_rps" jsonschema:"nullable"`      // rate at the knee; null if there is no knee
	Low        *float64 `json:"low_rps" csv:"knee_rps_low" jsonschema:"nullable"`   // lower end of the rate's interval; null if there is no knee
	High       *float64 `json:"high_rps" csv:"knee_rps_high" jsonschema:"nullable"` // upper end of the rate's interval; null if there is no knee
	Confidence *float64 `json:"confidence" jsonschema:"nullable"`                   // confidence of the rate's interval; null if there is no knee
	Reason     string   `json:"reason"`
}

// searchOf returns the result of a cell's rate search, or nil if there was no search.
func searchOf(cell record.Cell, trials []Trial, seed uint64) *Search {
	searched := Filter(trials, func(t Trial) bool { return t.Search != nil })
	if len(searched) == 0 {
		return nil
	}
	s := &Search{
		Kept:   FigureOver(searched, keptRate),
		Missed: FigureOver(searched, func(t Trial) float64 { return t.Search.MissedPerSecond }),
	}
	if goal, err := scenario.ParseGoal(cell.Load.Goal); err == nil {
		s.Percentile, s.LimitUS = goal.Percentile, float64(goal.Limit)/1e3
	}
	for _, t := range searched {
		s.Why = cmp.Or(s.Why, t.Search.Why)
		for _, step := range t.Search.Steps {
			one := SearchStep{
				Repeat: t.Repeat, Offered: step.RatePerSecond, Achieved: step.AchievedPerSecond, Kept: step.Kept, Why: step.Why,
			}
			// FigureNS is 0 if no request was answered. Older records lack the number of requests.
			enough := step.Requests == 0 || step.Requests >= stats.LeastCountForQuantile(s.Percentile/100)
			if step.FigureNS > 0 && enough {
				one.Microseconds = new(float64(step.FigureNS) / 1e3)
			}
			s.Steps = append(s.Steps, one)
		}
	}
	s.Threshold = searchThreshold(searched)
	slices.SortStableFunc(s.Steps, func(a, b SearchStep) int { return cmp.Compare(a.Offered, b.Offered) })
	s.Knee = rateKnee(s.Steps, seed)
	return s
}

// keptRate returns the highest rate that kept the goal of a trial's search, or NaN without a search.
func keptRate(t Trial) float64 {
	if t.Search == nil {
		return math.NaN()
	}
	return t.Search.KeptPerSecond
}

// searchThreshold returns the rate at which half of the tries keep the goal. With three or more
// trials, the interval is over trials. With fewer, it is over the tries of all trials.
func searchThreshold(trials []Trial) Figure {
	var all []stats.Try
	of := func(t Trial) float64 {
		var tries []stats.Try
		for _, step := range t.Search.Steps {
			tries = append(tries, stats.Try{Level: step.RatePerSecond, Passed: step.Kept})
		}
		all = append(all, tries...)
		found, err := stats.FindThreshold(tries, Confidence)
		if err != nil {
			return math.NaN()
		}
		return found.Estimate
	}
	single := KnownFigure(trials, of)
	if single != nil && single.Interval != nil {
		return *single
	}
	together, err := stats.FindThreshold(all, Confidence)
	if err != nil {
		return Figure{Value: math.NaN()}
	}
	return shown(FigureOf(together.Interval), trials)
}

// leastTries is the number of tries per rate that a knee needs. Two are enough, because the noise
// is estimated from all rates together.
const leastTries = 2

// rateKnee finds the knee among the rates with at least leastTries tries.
func rateKnee(steps []SearchStep, seed uint64) RateKnee {
	var curve stats.Curve
	for _, step := range steps {
		if step.Microseconds == nil {
			continue
		}
		last := len(curve.X) - 1
		if last < 0 || curve.X[last] != step.Offered {
			curve.X, curve.Y = append(curve.X, step.Offered), append(curve.Y, nil)
			last++
		}
		curve.Y[last] = append(curve.Y[last], *step.Microseconds)
	}
	curve = curve.WithTrials(leastTries)
	if len(curve.X) < KneePoints {
		return RateKnee{Reason: fmt.Sprintf("a knee needs %d rates with %d tries each; the search has %d such rates", KneePoints, leastTries, len(curve.X))}
	}
	found, err := stats.FindKnee(curve, stats.KneeSearch{Bend: stats.Steepens, LeastTrials: leastTries, Resampling: stats.Resampling{Seed: seed, Confidence: Confidence}})
	switch {
	case errors.Is(err, stats.ErrNoKnee):
		return RateKnee{Reason: "the curve has no bend that exceeds the noise between tries of one rate"}
	case err != nil:
		return RateKnee{Reason: err.Error()}
	}
	return RateKnee{Found: true, Rate: &found.X.Estimate, Low: &found.X.Low, High: &found.X.High, Confidence: &found.X.Confidence}
}

// capacityOf returns the rate of answers in overloaded trials, or nil without such trials.
func capacityOf(trials []Trial) *Figure {
	return KnownFigure(trials, func(t Trial) float64 {
		for _, c := range t.Checks {
			if c.Name == "overload" && c.Level == record.Invalid && c.Unit == "rps" {
				return Number(c.Figure)
			}
		}
		return math.NaN()
	})
}
