package compare

import (
	"slices"
	"strconv"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A LimitEffect holds what an in-flight limit changed, counted both ways: service times leave
// the wait for a permit out, response times include it.
type LimitEffect struct {
	Part    string `json:"part"`
	Without string `json:"without"` // a variant
	With    string `json:"with"`    // a variant
	record.Payload
	Clients           int           `json:"clients"`
	Limit             int           `json:"limit"`
	ThroughputRatio   matrix.Figure `json:"throughput_ratio"`                         // with over without
	MeanServiceRatio  matrix.Figure `json:"mean_service_ratio"`                       // with over without
	MeanResponseRatio matrix.Figure `json:"mean_response_ratio"`                      // with over without
	TailWithout       float64       `json:"tail_without" jsonschema:"nullable"`       // P99 over P50
	TailWithService   float64       `json:"tail_with_service" jsonschema:"nullable"`  // P99 over P50
	TailWithResponse  float64       `json:"tail_with_response" jsonschema:"nullable"` // P99 over P50
	P50WithoutUS      float64       `json:"p50_without_us" jsonschema:"nullable"`     // null if too few requests lie beyond, as the others
	P99WithoutUS      float64       `json:"p99_without_us" jsonschema:"nullable"`
	P50WithUS         float64       `json:"p50_with_us" jsonschema:"nullable"` // of response time
	P99WithUS         float64       `json:"p99_with_us" jsonschema:"nullable"` // of response time
}

// FindLimitEffects compares each variant that has a limit with the variant that differs in
// nothing else.
func FindLimitEffects(points []*matrix.Point) []LimitEffect {
	var effects []LimitEffect
	for _, group := range matrix.Rivals(points) {
		for _, with := range group {
			unlimited, limit, limited := withoutLimit(with.Cell.Variant)
			if without := matrix.FindVariant(group, unlimited); limited && without != nil {
				effects = append(effects, limitEffect(without, with, limit))
			}
		}
	}
	return effects
}

// withoutLimit takes the limit off a variant's name.
func withoutLimit(name string) (rest string, limit int, limited bool) {
	v, err := scenario.ParseVariant(name)
	if err != nil {
		return "", 0, false // not a variant of this version: its options are not known
	}
	value, set := v.Get(scenario.InFlightOption)
	if !set {
		return "", 0, false
	}
	limit, err = strconv.Atoi(value)
	if err != nil {
		return "", 0, false
	}
	v.Options = slices.DeleteFunc(v.Options, func(s scenario.Setting) bool { return s.Key == scenario.InFlightOption })
	return v.String(), limit, true
}

func limitEffect(without, with *matrix.Point, limit int) LimitEffect {
	before, after := without.ResponseTimes(), with.ResponseTimes()
	was, is := before.Latencies(), after.Latencies()
	return LimitEffect{
		Part: with.Cell.Part, Without: without.Cell.Variant, With: with.Cell.Variant,
		Payload: with.Cell.Payload, Clients: with.Cell.Clients, Limit: limit,
		ThroughputRatio:   matrix.Ratio(with, without, matrix.Metrics[matrix.Throughput]),
		MeanServiceRatio:  matrix.Ratio(with, without, matrix.Metrics[matrix.ServiceMean]),
		MeanResponseRatio: matrix.Ratio(with, without, matrix.Metrics[matrix.Mean]),
		TailWithout:       before.Tail().Value,
		TailWithService:   with.ServiceTimes().Tail().Value,
		TailWithResponse:  after.Tail().Value,
		P50WithoutUS:      was.P50.Value,
		P99WithoutUS:      was.P99.Value,
		P50WithUS:         is.P50.Value,
		P99WithUS:         is.P99.Value,
	}
}
