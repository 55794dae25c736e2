package compare

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
)

// ByConnection names the contrast of connection modes, which every stack has. The mode comes from
// the option or from the part. Stacks declare other contrasts with their options.
const ByConnection = scenario.ConnectionOption

// A Contrast compares two variants of one stack at the same place that differ in one option of
// their connections.
type Contrast struct {
	Part    string `json:"part"`
	Stack   string `json:"stack"`
	Option  string `json:"option"`  // the option that differs
	Base    string `json:"base"`    // a variant
	Changed string `json:"changed"` // a variant
	From    string `json:"from"`    // the base's value of the option
	To      string `json:"to"`      // the changed variant's value of the option
	record.Place
	Load    record.Load `json:"load"`  // without an in-flight limit, which belongs to the variant
	Pairs   int         `json:"pairs"` // repeats in which both trials are valid
	Effects []Effect    `json:"effects"`
}

// An Effect is a figure of the changed variant divided by that figure of the base.
type Effect struct {
	Metric  string        `json:"metric" jsonschema:"enum=cpu,enum=throughput,enum=p99,enum=handshake,enum=first-byte,enum=server-peak"`
	Ratio   matrix.Figure `json:"ratio"`
	P       float64       `json:"p" jsonschema:"nullable"`                                                 // as in a comparison
	Verdict Verdict       `json:"verdict" jsonschema:"enum=more,enum=less,enum=equivalent,enum=undecided"` // more, less, equivalent or undecided
}

// Of returns the effect on a metric.
func (c *Contrast) Of(metric string) (Effect, bool) {
	for _, e := range c.Effects {
		if e.Metric == metric {
			return e, true
		}
	}
	return Effect{}, false
}

// modesFrom lists the modes that a contrast may start from. The first measured one is used.
var modesFrom = []string{string(scenario.New), string(scenario.Resumed)}

// A choice holds a point with the values of its contrasted options.
type choice struct {
	point  *matrix.Point
	values map[string]string // by option
	usual  map[string]string // default values
	rest   string            // the variant's name with all other options
}

// FindContrasts compares each choice with the default if the variants differ in nothing else.
func FindContrasts(s *study.Study, points []*matrix.Point) []Contrast {
	var all []Contrast
	var bases, changed []*matrix.Point
	options := contrasted(s)
	for _, group := range matrix.Rivals(points) {
		var sides []choice
		for _, p := range group {
			if c, ok := choiceOf(s, p); ok {
				sides = append(sides, c)
			}
		}
		for _, option := range options {
			for _, to := range sides {
				from, ok := baseOf(sides, to, option)
				if !ok {
					continue
				}
				cell := to.point.Cell
				ofBase, _ := matrix.Pairs(from.point, to.point, matrix.Metrics[matrix.Throughput])
				all = append(all, Contrast{
					Part: cell.Part, Stack: cell.Stack, Option: option,
					Base: from.point.Cell.Variant, Changed: cell.Variant,
					From: from.values[option], To: to.values[option],
					Place: cell.Place, Load: to.point.Conditions().Load, Pairs: len(ofBase),
				})
				bases, changed = append(bases, from.point), append(changed, to.point)
			}
		}
	}
	for _, name := range []string{matrix.CPU, matrix.Throughput, matrix.P99, matrix.Handshake, matrix.FirstByte, matrix.ServerPeak} { // what a choice may change
		family := FamilyOf(points)
		of := matrix.Metrics[name]
		for i := range all {
			ofChanged, ofBase := matrix.Pairs(changed[i], bases[i], of)
			if len(ofChanged) == 0 || !matrix.ArePositive(ofChanged) || !matrix.ArePositive(ofBase) {
				continue // not measured at both, or without a ratio
			}
			all[i].Effects = append(all[i].Effects, Effect{
				Metric: name, Ratio: matrix.Ratio(changed[i], bases[i], of), P: math.NaN(), Verdict: Undecided,
			})
			family.add(changed[i], bases[i], of, func(verdict stats.Comparison) {
				e := &all[i].Effects[len(all[i].Effects)-1]
				e.P, e.Verdict, e.Ratio = verdict.P, ofSize[verdict.Verdict], matrix.FigureOf(verdict.Ratio)
			})
		}
		family.Judge()
	}
	return slices.DeleteFunc(all, func(c Contrast) bool { return len(c.Effects) == 0 })
}

// contrasted returns the options that stacks contrast, without repetition.
func contrasted(s *study.Study) []string {
	keys := []string{ByConnection}
	for _, stack := range s.Stacks {
		for _, option := range stack.Options {
			if option.Contrast != nil {
				keys = lists.AppendNew(keys, option.Key)
			}
		}
	}
	return keys
}

func choiceOf(s *study.Study, p *matrix.Point) (choice, bool) {
	v, err := scenario.ParseVariant(p.Cell.Variant)
	if err != nil {
		return choice{}, false // not a variant of this version: its options are not known
	}
	c := choice{point: p, values: map[string]string{ByConnection: p.Cell.Connection}, usual: map[string]string{}}
	for _, option := range s.Stack(v.Stack).Options {
		if option.Contrast == nil {
			continue
		}
		value, _ := v.Get(option.Key)
		c.usual[option.Key] = cmp.Or(option.Contrast.Unset, option.Default)
		c.values[option.Key] = cmp.Or(value, c.usual[option.Key])
	}
	v.Options = slices.DeleteFunc(v.Options, func(set scenario.Setting) bool {
		_, contrasted := c.values[set.Key]
		return contrasted
	})
	c.rest = v.String()
	return c, true
}

// baseOf finds the point that `to` is compared with for one of its options.
func baseOf(sides []choice, to choice, option string) (choice, bool) {
	candidates := []string{to.usual[option]}
	if option == ByConnection {
		candidates = modesFrom
	}
	for _, value := range candidates {
		if to.values[option] == value {
			return choice{}, false // `to` is the base itself, or its stack has no such option
		}
		for _, from := range sides {
			if from.rest == to.rest && from.values[option] == value && equalExcept(option, from.values, to.values) {
				return from, true
			}
		}
	}
	return choice{}, false
}

func equalExcept(option string, a, b map[string]string) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	delete(a, option)
	delete(b, option)
	return maps.Equal(a, b)
}

// A LimitEffect compares a variant with and without an in-flight limit, counted in two ways:
// service times leave out the wait for a permit, response times include it.
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
	P50WithoutUS      float64       `json:"p50_without_us" jsonschema:"nullable"`     // null if too few requests lie beyond it; also in the next fields
	P99WithoutUS      float64       `json:"p99_without_us" jsonschema:"nullable"`
	P50WithUS         float64       `json:"p50_with_us" jsonschema:"nullable"` // of response time
	P99WithUS         float64       `json:"p99_with_us" jsonschema:"nullable"` // of response time
}

// FindLimitEffects compares each limited variant with the variant without the limit.
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

// withoutLimit removes the limit from a variant's name.
func withoutLimit(name string) (rest string, limit int, limited bool) {
	v, err := scenario.ParseVariant(name)
	if err != nil {
		return "", 0, false // not a variant of this version: its options are not known
	}
	value, _ := v.Get(scenario.InFlightOption)
	if limit, err = strconv.Atoi(value); err != nil {
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
