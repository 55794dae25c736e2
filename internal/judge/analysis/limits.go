package analysis

import (
	"slices"
	"strconv"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// LimitEffect is what an in-flight limit did, counted both ways: service leaves
// the wait for a permit out, response has it in.
type LimitEffect struct {
	Part    string `json:"part"`
	Without string `json:"without"` // a variant
	With    string `json:"with"`    // a variant
	record.Payload
	Clients           int     `json:"clients"`
	Limit             int     `json:"limit"`
	ThroughputRatio   Figure  `json:"throughput_ratio"`                         // with over without
	MeanServiceRatio  Figure  `json:"mean_service_ratio"`                       // with over without
	MeanResponseRatio Figure  `json:"mean_response_ratio"`                      // with over without
	TailWithout       float64 `json:"tail_without" jsonschema:"nullable"`       // P99 over P50
	TailWithService   float64 `json:"tail_with_service" jsonschema:"nullable"`  // P99 over P50
	TailWithResponse  float64 `json:"tail_with_response" jsonschema:"nullable"` // P99 over P50
	P50WithoutUS      float64 `json:"p50_without_us" jsonschema:"nullable"`     // null where too few requests lie beyond, as the others
	P99WithoutUS      float64 `json:"p99_without_us" jsonschema:"nullable"`
	P50WithUS         float64 `json:"p50_with_us" jsonschema:"nullable"` // of response time
	P99WithUS         float64 `json:"p99_with_us" jsonschema:"nullable"` // of response time
}

// limitEffects compares each variant that has a limit with the one that differs in
// nothing else.
func limitEffects(points []*point) []LimitEffect {
	var effects []LimitEffect
	for _, group := range rivals(points) {
		for _, with := range group {
			unlimited, limit, limited := withoutLimit(with.cell.Variant)
			if without := findVariant(group, unlimited); limited && without != nil {
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

func limitEffect(without, with *point, limit int) LimitEffect {
	before, after := pool(without.valid(), responseTimes), pool(with.valid(), responseTimes)
	was, is := before.latencies(), after.latencies()
	return LimitEffect{
		Part: with.cell.Part, Without: without.cell.Variant, With: with.cell.Variant,
		Payload: with.cell.Payload, Clients: with.cell.Clients, Limit: limit,
		ThroughputRatio:   ratio(with, without, metrics[Throughput]),
		MeanServiceRatio:  ratio(with, without, metrics[ServiceMean]),
		MeanResponseRatio: ratio(with, without, metrics[Mean]),
		TailWithout:       before.tail().Value,
		TailWithService:   pool(with.valid(), serviceTimes).tail().Value,
		TailWithResponse:  after.tail().Value,
		P50WithoutUS:      was.P50.Value,
		P99WithoutUS:      was.P99.Value,
		P50WithUS:         is.P50.Value,
		P99WithUS:         is.P99.Value,
	}
}
