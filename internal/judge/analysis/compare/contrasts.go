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

// ByConnection is the option whose contrast compares connection modes. Every stack has it. Stacks
// declare other contrasts with their options.
const ByConnection = scenario.ConnectionOption

// A Contrast compares two variants of a stack that differ in one option of their connections.
type Contrast struct {
	Part    string `json:"part"`
	Stack   string `json:"stack"`
	Option  string `json:"option"`  // the option that differs
	Base    string `json:"base"`    // the variant with the option's usual value
	Changed string `json:"changed"` // the variant with another value
	From    string `json:"from"`    // the base's value of the option
	To      string `json:"to"`      // the changed variant's value of the option
	record.Place
	Load    record.Load `json:"load"`  // the load without an in-flight limit, which is an option of the variant
	Pairs   int         `json:"pairs"` // number of repeats in which both variants have a valid trial
	Effects []Effect    `json:"effects"`

	base, changed *matrix.Point
}

// An Effect is a figure of the changed variant divided by the same figure of the base.
type Effect struct {
	Metric  string        `json:"metric" jsonschema:"enum=cpu,enum=throughput,enum=p99,enum=handshake,enum=first-byte,enum=server-peak"`
	Ratio   matrix.Figure `json:"ratio"`
	P       float64       `json:"p" jsonschema:"nullable"`                                                 // probability of such a ratio if the variants are equal, Holm-adjusted; null with too few trials
	Verdict Verdict       `json:"verdict" jsonschema:"enum=more,enum=less,enum=equivalent,enum=undecided"` // verdict on the changed variant
	Margin  float64       `json:"margin"`                                                                  // smallest of 0.01, 0.02, 0.05 and 0.1 by which the variants differ at most; 0 if they may differ by more
}

// EffectOn returns the effect on a metric.
func (c *Contrast) EffectOn(metric string) (Effect, bool) {
	for _, e := range c.Effects {
		if e.Metric == metric {
			return e, true
		}
	}
	return Effect{}, false
}

// baseModes lists the connection modes that may be a contrast's base. The base is the first mode
// that was measured.
var baseModes = []string{string(scenario.New), string(scenario.Resumed)}

// A choice holds a point with the values of its contrasted options.
type choice struct {
	point  *matrix.Point
	values map[string]string // value of each contrasted option
	usual  map[string]string // default value of each contrasted option
	rest   string            // the variant's name with all other options
}

// FindContrasts compares variants that differ in one option. The base has the default value.
func FindContrasts(s *study.Study, points []*matrix.Point) []Contrast {
	var all []Contrast
	options := contrastedOptions(s)
	for _, group := range matrix.ComparableGroups(points) {
		var sides []choice
		for _, p := range group {
			if c, ok := newChoice(s, p); ok {
				sides = append(sides, c)
			}
		}
		for _, option := range options {
			for _, to := range sides {
				from, ok := findBase(sides, to, option)
				if !ok {
					continue
				}
				cell := to.point.Cell
				all = append(all, Contrast{
					Part: cell.Part, Stack: cell.Stack, Option: option,
					Base: from.point.Cell.Variant, Changed: cell.Variant,
					From: from.values[option], To: to.values[option],
					Place: cell.Place, Load: to.point.Conditions().Load,
					Pairs: matrix.CountPairs(from.point, to.point, matrix.Metrics[matrix.Throughput]),
					base:  from.point, changed: to.point,
				})
			}
		}
	}
	for _, name := range []string{matrix.CPU, matrix.Throughput, matrix.P99, matrix.Handshake, matrix.FirstByte, matrix.ServerPeak} {
		var family Family
		fit := matrix.NewFit(points, name)
		for i := range all {
			ratio, known := fit.Ratio(all[i].changed, all[i].base)
			if !known {
				continue // one variant has no figure, or a figure of zero
			}
			all[i].Effects = append(all[i].Effects, Effect{
				Metric: name, Ratio: matrix.Figure{Value: ratio.Value}, P: math.NaN(), Verdict: Undecided,
			})
			family.Add(ratio, func(verdict stats.Comparison) {
				e := &all[i].Effects[len(all[i].Effects)-1]
				e.P, e.Verdict, e.Ratio, e.Margin = verdict.P, sizeVerdicts[verdict.Verdict], matrix.FigureOf(verdict.Ratio), verdict.Margin
			})
		}
		family.Judge()
	}
	return slices.DeleteFunc(all, func(c Contrast) bool { return len(c.Effects) == 0 })
}

// contrastedOptions returns the options for which stacks declare a contrast, each once.
func contrastedOptions(s *study.Study) []string {
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

func newChoice(s *study.Study, p *matrix.Point) (choice, bool) {
	v, err := scenario.ParseVariant(p.Cell.Variant)
	if err != nil {
		return choice{}, false // this version does not know the options
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

// findBase finds the point with which `to` is compared in one option.
func findBase(sides []choice, to choice, option string) (choice, bool) {
	candidates := []string{to.usual[option]}
	if option == ByConnection {
		candidates = baseModes
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

// A LimitEffect compares a variant with and without an in-flight limit. Response times include the
// wait for a permit of the limit. Service times do not.
type LimitEffect struct {
	Part    string `json:"part"`
	Without string `json:"without"` // the variant without the limit
	With    string `json:"with"`    // the variant with the limit
	record.Payload
	Clients           int           `json:"clients"`
	Limit             int           `json:"limit"`                                    // largest number of calls in flight
	ThroughputRatio   matrix.Figure `json:"throughput_ratio"`                         // throughput with the limit divided by throughput without the limit
	MeanServiceRatio  matrix.Figure `json:"mean_service_ratio"`                       // mean service time with the limit divided by the mean service time without the limit
	MeanResponseRatio matrix.Figure `json:"mean_response_ratio"`                      // mean response time with the limit divided by the mean response time without the limit
	TailWithout       float64       `json:"tail_without" jsonschema:"nullable"`       // P99 without the limit, divided by P50
	TailWithService   float64       `json:"tail_with_service" jsonschema:"nullable"`  // P99 of the service time with the limit, divided by P50
	TailWithResponse  float64       `json:"tail_with_response" jsonschema:"nullable"` // P99 of the response time with the limit, divided by P50
	P99WithoutUS      float64       `json:"p99_without_us" jsonschema:"nullable"`     // P99 without the limit; null if too few requests are slower
	P99WithUS         float64       `json:"p99_with_us" jsonschema:"nullable"`        // P99 of the response time with the limit; null if too few requests are slower
}

// FindLimitEffects compares each variant that has a limit with the same variant without it.
func FindLimitEffects(points []*matrix.Point) []LimitEffect {
	var effects []LimitEffect
	fits := map[string]*matrix.Fit{}
	for _, name := range []string{matrix.Throughput, matrix.ServiceMean, matrix.Mean} {
		fits[name] = matrix.NewFit(points, name)
	}
	for _, group := range matrix.ComparableGroups(points) {
		for _, with := range group {
			unlimited, limit, limited := withoutLimit(with.Cell.Variant)
			if without := matrix.FindVariant(group, unlimited); limited && without != nil {
				effects = append(effects, newLimitEffect(without, with, limit, fits))
			}
		}
	}
	return effects
}

// withoutLimit returns a variant's name without its in-flight limit, and the limit.
func withoutLimit(name string) (rest string, limit int, limited bool) {
	v, err := scenario.ParseVariant(name)
	if err != nil {
		return "", 0, false // this version does not know the options
	}
	value, _ := v.Get(scenario.InFlightOption)
	if limit, err = strconv.Atoi(value); err != nil {
		return "", 0, false
	}
	v.Options = slices.DeleteFunc(v.Options, func(s scenario.Setting) bool { return s.Key == scenario.InFlightOption })
	return v.String(), limit, true
}

func newLimitEffect(without, with *matrix.Point, limit int, fits map[string]*matrix.Fit) LimitEffect {
	before, after := without.ResponseTimes(), with.ResponseTimes()
	ratio := func(metric string) matrix.Figure {
		r, _ := fits[metric].Ratio(with, without)
		return r.Figure()
	}
	return LimitEffect{
		Part: with.Cell.Part, Without: without.Cell.Variant, With: with.Cell.Variant,
		Payload: with.Cell.Payload, Clients: with.Cell.Clients, Limit: limit,
		ThroughputRatio:   ratio(matrix.Throughput),
		MeanServiceRatio:  ratio(matrix.ServiceMean),
		MeanResponseRatio: ratio(matrix.Mean),
		TailWithout:       before.Tail().Value,
		TailWithService:   with.ServiceTimes().Tail().Value,
		TailWithResponse:  after.Tail().Value,
		P99WithoutUS:      before.Latencies().P99.Value,
		P99WithUS:         after.Latencies().P99.Value,
	}
}
