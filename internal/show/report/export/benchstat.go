// Package export writes records and profiles in the formats of other tools. Each format has a
// file.
package export

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// WriteBenchstat prints one line per valid trial in the Go benchmark format
// (golang.org/design/14313-benchmark-format). benchstat takes each trial for one repeat, and can
// compare variants, for example with
//
//	benchstat -col /stack run.txt
//
// ns/op is the mean response time of a request, not the window divided by the number of requests:
// with many clients the two values differ. In each part the variants have the scenario's order,
// since benchstat compares with the first variant.
func WriteBenchstat(w io.Writer, s *analysis.Summary, records []*record.Record) error {
	var out strings.Builder
	fmt.Fprintf(&out, "run: %s\nseed: %d\n", s.Name, s.Seed)
	for _, u := range benchstatUnits() {
		fmt.Fprintf(&out, "Unit %s better=%s\n", u.name, u.better)
	}
	ambiguous := ambiguousNames(records)
	part := ""
	for _, r := range byVariant(s, records) {
		if r.Cell.Part != part {
			part = r.Cell.Part
			fmt.Fprintf(&out, "part: %s\n", part)
		}
		if !r.Valid() {
			why := r.Failure
			if check := r.FirstInvalid(); why == "" {
				why = check.Name + ": " + check.Detail
			}
			fmt.Fprintf(&out, "# left out: trial %d of %s is not valid: %s\n", r.Trial, benchmarkName(&r.Cell), strings.Join(strings.Fields(why), " "))
			continue
		}
		name := benchmarkName(&r.Cell)
		if ambiguous[part+" "+name] {
			name += fmt.Sprintf("/connection=%s/load=%s", r.Cell.Connection, loadKey(r.Cell.Load))
		}
		if r.Client.GoMaxProcs > 0 {
			name += "-" + strconv.Itoa(r.Client.GoMaxProcs)
		}
		line, err := benchmarkLine(name, r)
		if err != nil {
			return fmt.Errorf("report: trial %d: %w", r.Trial, err)
		}
		out.WriteString(line)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// A benchstatUnit is a figure of a trial. Its value is nil if it was not measured, or if too few
// requests lie beyond a percentile.
type benchstatUnit struct {
	name, better string
	value        func(measuredTrial) any
}

// A measuredTrial is a record with its response times. times is nil if the record has only totals.
type measuredTrial struct {
	*record.Record
	totals latency.Distribution
	times  *latency.Histogram
}

func benchstatUnits() []benchstatUnit {
	units := []benchstatUnit{
		{"ns/op", "lower", func(t measuredTrial) any { return t.totals.Sum / max(1, t.totals.Count) }},
		{"req/s", "higher", func(t measuredTrial) any { return t.ThroughputPerSecond() }},
	}
	for _, q := range matrix.Quantiles {
		if name := q.Tag.Get("benchstat"); name != "" {
			units = append(units, benchstatUnit{name, "lower", func(t measuredTrial) any {
				if t.times == nil || t.times.Count() < stats.LeastCountForQuantile(q.At) {
					return nil
				}
				return int64(t.times.Quantile(q.At))
			}})
		}
	}
	cpu := func(name string, of func(measuredTrial) record.Process) benchstatUnit {
		return benchstatUnit{name, "lower", func(t measuredTrial) any {
			cost, known := of(t).CPUNS()
			if !known || t.Ended() == 0 {
				return nil
			}
			return cost / t.Ended()
		}}
	}
	return append(units,
		cpu("client-cpu-ns", func(t measuredTrial) record.Process { return t.Client }),
		cpu("server-cpu-ns", func(t measuredTrial) record.Process { return t.Server }))
}

func benchmarkLine(name string, r *record.Record) (string, error) {
	t := measuredTrial{Record: r, totals: *cmp.Or(r.Response, &r.Service)}
	if !t.totals.OnlyTotals() {
		var err error
		if t.times, err = t.totals.Decode(); err != nil {
			return "", err
		}
	}
	line := fmt.Sprintf("%s %d", name, r.Requests)
	for _, u := range benchstatUnits() {
		if value := u.value(t); value != nil {
			line += fmt.Sprintf(" %v %s", value, u.name)
		}
	}
	return line + "\n", nil
}

// byVariant returns the trials in the order of the plan's parts, then of the scenario's variants.
func byVariant(s *analysis.Summary, records []*record.Record) []*record.Record {
	parts, variants := map[string]int{}, map[string]int{}
	for _, r := range records {
		if _, seen := parts[r.Cell.Part]; !seen {
			parts[r.Cell.Part] = len(parts)
		}
	}
	for i, c := range s.Cells {
		if _, seen := variants[c.Variant]; !seen {
			variants[c.Variant] = i
		}
	}
	return slices.SortedStableFunc(slices.Values(records), func(a, b *record.Record) int {
		return cmp.Or(cmp.Compare(parts[a.Cell.Part], parts[b.Cell.Part]), cmp.Compare(variants[a.Cell.Variant], variants[b.Cell.Variant]))
	})
}

// benchmarkName returns a cell's name without connection and load. Connection and load differ by
// stack, and benchstat only compares lines that differ in nothing but the stack.
func benchmarkName(c *record.Cell) string {
	workload := []rune(c.Workload)
	if len(workload) > 0 {
		workload[0] = unicode.ToUpper(workload[0])
	}
	name := fmt.Sprintf("Benchmark%s/stack=%s/size=%d", string(workload), c.Variant, c.RequestBytes)
	if c.ResponseBytes != c.RequestBytes {
		name += fmt.Sprintf("/answer=%d", c.ResponseBytes)
	}
	return name + fmt.Sprintf("/clients=%d", c.Clients)
}

// ambiguousNames finds names that several cells of a part share.
func ambiguousNames(records []*record.Record) map[string]bool {
	first := make(map[string]record.Cell)
	ambiguous := make(map[string]bool)
	for _, r := range records {
		key := r.Cell.Part + " " + benchmarkName(&r.Cell)
		if known, seen := first[key]; seen && known != r.Cell {
			ambiguous[key] = true
		}
		first[key] = r.Cell
	}
	return ambiguous
}

// loadKey returns the load as part of a name, without blanks and slashes.
func loadKey(l record.Load) string {
	key := l.Model
	if l.RatePerSecond > 0 {
		key += fmt.Sprintf(":%s:%g", l.Arrivals, l.RatePerSecond)
	}
	if l.RampTo > 0 {
		key += fmt.Sprintf("-%g", l.RampTo)
	}
	if l.Stages != "" {
		key += ":" + string(l.Stages)
	}
	if l.Burst > 0 {
		key += fmt.Sprintf(":%d", l.Burst)
	}
	if l.Goal != "" {
		key += ":" + l.Goal
	}
	if l.InFlightLimit > 0 {
		key += fmt.Sprintf(":limit=%d", l.InFlightLimit)
	}
	return key
}
