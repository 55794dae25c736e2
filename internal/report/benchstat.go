package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/latency"
	"wirelab.dev/internal/record"
)

// WriteBenchstat prints a line a valid trial in the Go benchmark format
// (golang.org/design/14313-benchmark-format), so that benchstat sees the unit
// of replication and can compare for itself, as in
//
//	benchstat -col /stack run.txt
//
// ns/op is the mean response time of a request, not the window over the number
// of requests: with many clients the two differ. In each part the variants come in
// the order of the scenario, since benchstat compares with the first that it meets.
func WriteBenchstat(w io.Writer, run *Run) error {
	var out strings.Builder
	fmt.Fprintf(&out, "run: %s\nseed: %d\n", run.Summary.Name, run.Summary.Seed)
	out.WriteString("Unit ns/op better=lower\nUnit req/s better=higher\n")
	for _, q := range benchstatQuantiles() {
		fmt.Fprintf(&out, "Unit %s better=lower\n", q.Tag.Get("benchstat"))
	}
	out.WriteString("Unit client-cpu-ns better=lower\nUnit server-cpu-ns better=lower\n")
	ambiguous := ambiguousNames(run.Records)
	part := ""
	for _, r := range byVariant(run) {
		if r.Cell.Part != part {
			part = r.Cell.Part
			fmt.Fprintf(&out, "part: %s\n", part)
		}
		if !r.Valid() {
			fmt.Fprintf(&out, "# left out, trial %d of %s is not valid: %s\n", r.Trial, benchmarkName(&r.Cell), oneLine(whyInvalid(r)))
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

func benchmarkLine(name string, r *record.Record) (string, error) {
	totals := responseTimes(r)
	line := fmt.Sprintf("%s %d %d ns/op %g req/s", name, r.Requests, totals.Sum/max(1, totals.Count), r.ThroughputPerSecond())
	if !totals.OnlyTotals() {
		times, err := totals.Decode()
		if err != nil {
			return "", err
		}
		for _, q := range benchstatQuantiles() {
			line += fmt.Sprintf(" %d %s", int64(times.Quantile(q.At)), q.Tag.Get("benchstat"))
		}
	}
	for _, end := range []struct {
		unit string
		cost record.Process
	}{{"client-cpu-ns", r.Client}, {"server-cpu-ns", r.Server}} {
		if cost, known := end.cost.CPUNS(); known && r.Completed > 0 {
			line += fmt.Sprintf(" %d %s", cost/r.Completed, end.unit)
		}
	}
	return line + "\n", nil
}

// benchstatQuantiles are those of the response time that have a unit here.
func benchstatQuantiles() []analysis.Quantile {
	return slices.DeleteFunc(slices.Clone(analysis.Quantiles), func(q analysis.Quantile) bool { return q.Tag.Get("benchstat") == "" })
}

// byVariant are the trials in the order of the plan's parts, and in a part by where
// the scenario has their variants.
func byVariant(run *Run) []*record.Record {
	parts, variants := map[string]int{}, map[string]int{}
	for _, r := range run.Records {
		if _, seen := parts[r.Cell.Part]; !seen {
			parts[r.Cell.Part] = len(parts)
		}
	}
	for i, c := range run.Summary.Cells {
		if _, seen := variants[c.Variant]; !seen {
			variants[c.Variant] = i
		}
	}
	return slices.SortedStableFunc(slices.Values(run.Records), func(a, b *record.Record) int {
		return cmp.Or(cmp.Compare(parts[a.Cell.Part], parts[b.Cell.Part]), cmp.Compare(variants[a.Cell.Variant], variants[b.Cell.Variant]))
	})
}

// benchmarkName leaves out how the stack was connected and loaded: each has a
// usual way of its own, and a name with it would keep benchstat from putting
// one stack beside another.
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

// ambiguousNames finds the names that cells of one part share, which would mix
// them up.
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

// loadKey is the load as part of a name, which holds no blank and no slash.
func loadKey(l record.Load) string {
	key := l.Model
	if l.RatePerSecond > 0 {
		key += fmt.Sprintf(":%s:%g", l.Arrivals, l.RatePerSecond)
	}
	if l.RampTo > 0 {
		key += fmt.Sprintf("-%g", l.RampTo)
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

// responseTimes is the time from the intended send, which is the service time
// where the two are the same.
func responseTimes(r *record.Record) latency.Distribution {
	if r.Response != nil {
		return *r.Response
	}
	return r.Service
}

func whyInvalid(r *record.Record) string {
	if r.Failure != "" {
		return r.Failure
	}
	for _, check := range r.Checks {
		if check.Level == record.Invalid {
			return check.Name + ": " + check.Detail
		}
	}
	return ""
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
