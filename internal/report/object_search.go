package report

import "wirelab.dev/internal/analysis"

// SearchObject is what looking for the highest rate that keeps a goal found.
type SearchObject struct {
	Percentile Number             `json:"percentile"` // of the response time, that the goal is about
	LimitUS    Number             `json:"limit_us"`
	Kept       Number             `json:"kept_rps"`   // the highest rate that kept the goal
	Missed     Number             `json:"missed_rps"` // the lowest above it that did not
	Steps      []SearchStepObject `json:"steps"`      // by rate
	Knee       RateKneeObject     `json:"knee"`
	Why        string             `json:"why"` // what ended a search before the two came close
}

// SearchStepObject is one try of a rate.
type SearchStepObject struct {
	Repeat      int    `json:"repeat"`
	OfferedRPS  Number `json:"offered_rps"`
	AchievedRPS Number `json:"achieved_rps"`
	Figure      Number `json:"figure_us"` // of the percentile; null where nothing was answered
	Kept        bool   `json:"kept"`
	Why         string `json:"why"` // it was not kept
}

// RateKneeObject is the rate at which the percentile begins to grow.
type RateKneeObject struct {
	Found      bool   `json:"found"`      // false: refused, see reason
	RateRPS    Number `json:"rate_rps"`   // null where not found, as the next three
	LowRPS     Number `json:"low_rps"`    // it lies above
	HighRPS    Number `json:"high_rps"`   // it lies below
	Confidence Number `json:"confidence"` // of the two; null where they are no more than the rates tried beside it
	Reason     string `json:"reason"`
}

func (f figures) search(s *analysis.Search) *SearchObject {
	if s == nil {
		return nil
	}
	object := &SearchObject{
		Percentile: Number(s.Percentile), LimitUS: Number(s.LimitUS),
		Kept: f.take("search.kept_rps", &s.Kept), Missed: f.take("search.missed_rps", &s.Missed),
		Steps: each(s.Steps, searchStepObject), Why: s.Why,
		Knee: RateKneeObject{
			Found: s.Knee.Found, Reason: s.Knee.Reason,
			RateRPS: Number(none.Value), LowRPS: Number(none.Value), HighRPS: Number(none.Value), Confidence: Number(none.Value),
		},
	}
	if s.Knee.Found {
		object.Knee.RateRPS, object.Knee.LowRPS, object.Knee.HighRPS = Number(s.Knee.Rate), Number(s.Knee.Low), Number(s.Knee.High)
	}
	if s.Knee.Confidence > 0 {
		object.Knee.Confidence = Number(s.Knee.Confidence)
	}
	return object
}

func searchStepObject(s *analysis.SearchStep) SearchStepObject {
	object := SearchStepObject{
		Repeat: s.Repeat, OfferedRPS: Number(s.Offered), AchievedRPS: Number(s.Achieved),
		Figure: Number(none.Value), Kept: s.Kept, Why: s.Why,
	}
	if s.Microseconds > 0 {
		object.Figure = Number(s.Microseconds)
	}
	return object
}
