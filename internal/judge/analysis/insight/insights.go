// Package insight sums the readings of probes from extra passes: counters, system calls, CPU time
// by category, the stages of calls, call stacks and allocations. Explain divides the difference
// between two cells.
//
// Figures of a pass are scaled to the measured trials, since a probe slows its pass down. The
// package does not know how probes read.
package insight

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// The ends of a wire.
const (
	ClientEnd = "client"
	ServerEnd = "server"
)

// An Insight holds the probes' readings of a cell. Times are in microseconds, and costs per call
// are means.
type Insight struct {
	Part    string `json:"part"`
	Variant string `json:"variant"`
	record.Place
	Mean *matrix.Figure `json:"mean_us"` // mean time of a call without a probe; null if the cell was not measured

	Passes []Pass `json:"passes"`
	Client Inside `json:"client"`
	Server Inside `json:"server"`
	Life   *Life  `json:"life,omitempty"` // absent if no probe traced calls
}

// A Pass holds one probe's extra trials of a cell, and their cost.
type Pass struct {
	Probe  string `json:"probe"`
	Trials int    `json:"trials"`
	// Cost is the time of a call with the probe, divided by the time without it; null if unknown.
	Cost    *matrix.Figure `json:"cost"`
	Method  string         `json:"method"`
	Missing []string       `json:"missing,omitempty"` // what the probe could not read, and why
}

// An Inside holds the readings of one end. A list is empty if no probe made it.
type Inside struct {
	Counters []Count    `json:"counters"`
	Syscalls []Syscall  `json:"syscalls"`          // the most frequent first
	CPU      *Breakdown `json:"cpu,omitempty"`     // time on a CPU
	OffCPU   *Breakdown `json:"off_cpu,omitempty"` // waiting, of all threads together
}

// A Count is a number of events.
type Count struct {
	Name    string  `json:"name"`
	PerCall float64 `json:"per_call"`
}

// A Syscall is one kind of system call.
type Syscall struct {
	Name    string   `json:"name"`
	PerCall float64  `json:"per_call"`
	Time    *float64 `json:"us" jsonschema:"nullable"` // duration of one, including waiting; null if not measured
}

// A Breakdown divides a time per call by category.
type Breakdown struct {
	PerCall    float64    `json:"us_per_call"`
	Samples    int64      `json:"samples"`    // samples behind the shares: more samples, smaller errors
	Categories []Category `json:"categories"` // the largest first
	Functions  []Spent    `json:"functions"`  // functions with the most own time
	// Depth is the mean number of user-space functions in the stacks that end in the kernel.
	Depth *float64 `json:"depth" jsonschema:"nullable"`
	// Decoding describes the decoding of messages; absent if no sample shows it.
	Decoding *Decoding `json:"decoding,omitempty"`
}

// A Category is a named share of a time.
type Category struct {
	Name    string  `json:"name"`
	Share   float64 `json:"share"`
	PerCall float64 `json:"us_per_call"`
	Error   float64 `json:"error_us"` // one standard error, only from sampling
}

// A Spent is a function with its own time.
type Spent struct {
	Function string  `json:"function"`
	In       string  `json:"in,omitempty"` // kernel, or the library's name
	Share    float64 `json:"share"`
}

// A Decoding holds the depth in the stack at which messages are decoded, and the share of time.
type Decoding struct {
	Depth float64 `json:"depth"` // mean number of calling functions
	Share float64 `json:"share"`
}

// placeOf returns the properties that measured trials and passes share: all but the load.
func placeOf(c record.Cell) record.Cell {
	c.Load = record.Load{}
	return c
}

// FindInsights groups the passes of equal cells, in the order of the cells.
func FindInsights(points []*matrix.Point, passes []*record.Record, categories *Categories) []Insight {
	var all []Insight
	for _, group := range byPlace(points, passes) {
		if one := newInsight(group.bare, group.passes, categories); len(one.Passes) > 0 {
			all = append(all, one)
		}
	}
	return all
}

// A probedCell holds the passes of a cell, and its measured trials if there are any.
type probedCell struct {
	bare   *matrix.Point
	passes []*record.Record
}

// byPlace groups passes by cell: by part, then from small to large messages, from few to many
// clients, and in the order of the measured cells.
func byPlace(points []*matrix.Point, passes []*record.Record) []probedCell {
	order, bare := map[record.Cell]int{}, map[record.Cell]*matrix.Point{}
	for i, p := range points {
		order[placeOf(p.Cell)], bare[placeOf(p.Cell)] = i, p
	}
	passes = slices.Clone(passes)
	slices.SortStableFunc(passes, func(a, b *record.Record) int { return cmp.Compare(a.Trial, b.Trial) })
	part := map[string]int{}
	for i, r := range passes {
		if _, known := part[r.Cell.Part]; !known {
			part[r.Cell.Part] = i
		}
	}
	groups := lists.GroupBy(passes, func(r *record.Record) record.Cell { return placeOf(r.Cell) })
	slices.SortStableFunc(groups, func(x, y []*record.Record) int {
		a, b := placeOf(x[0].Cell), placeOf(y[0].Cell)
		return cmp.Or(cmp.Compare(part[a.Part], part[b.Part]), a.Place.Compare(b.Place), cmp.Compare(order[a], order[b]))
	})
	return lists.Map(groups, func(group []*record.Record) probedCell {
		return probedCell{bare[placeOf(group[0].Cell)], group}
	})
}

// newInsight sums up the passes of one cell. bare holds its measured trials, if any.
func newInsight(bare *matrix.Point, passes []*record.Record, categories *Categories) Insight {
	cell := passes[0].Cell
	i := Insight{Part: cell.Part, Variant: cell.Variant, Place: cell.Place}
	var trials []matrix.Trial
	if bare != nil {
		trials = bare.Valid()
		i.Mean = matrix.Known(trials, matrix.Metrics[matrix.Mean])
	}
	for _, probe := range record.Probes {
		of := slices.DeleteFunc(slices.Clone(passes), func(r *record.Record) bool { return r.Probe != probe })
		if len(of) == 0 || probe == record.ProbeAllocations {
			continue
		}
		i.Passes = append(i.Passes, newPass(probe, bare, of))
		if probe == record.ProbeLife {
			i.Life = newLife(of)
			continue
		}
		i.Client.add(probe, of, matrix.ClientOf, trials, categories)
		i.Server.add(probe, of, matrix.ServerOf, trials, categories)
	}
	i.Client.addUsage(trials, matrix.ClientOf)
	i.Server.addUsage(trials, matrix.ServerOf)
	return i
}

func newPass(probe string, bare *matrix.Point, of []*record.Record) Pass {
	p := Pass{Probe: probe, Trials: len(of)}
	for _, r := range of {
		for _, seen := range []*record.Seen{r.Server.Seen, r.Client.Seen} {
			if seen == nil {
				continue
			}
			p.Method = seen.Method
			for _, missing := range seen.Missing {
				p.Missing = lists.AppendNew(p.Missing, missing)
			}
		}
		if r.Life != nil {
			p.Method = r.Life.Method
		}
	}
	if bare != nil && probe != record.ProbeLife { // life alternates with and without the probe itself
		watched := &matrix.Point{Cell: bare.Cell, Level: bare.Level}
		for _, r := range of {
			if watched.Add(r) != nil { // unreadable times
				return p
			}
		}
		if len(bare.Valid()) > 0 && len(watched.Valid()) > 0 {
			p.Cost = new(matrix.Ratio(watched, bare, matrix.Metrics[matrix.Mean]))
		}
	}
	return p
}

// add adds a probe's readings of an end. bare holds the cell's measured trials.
func (in *Inside) add(probe string, passes []*record.Record, end func(matrix.Trial) record.Process, bare []matrix.Trial, categories *Categories) {
	var seen []*record.Seen
	var calls float64
	for _, r := range passes {
		if s := end(matrix.Trial{Record: r}).Seen; s != nil && r.Completed > 0 {
			seen = append(seen, s)
			calls += float64(r.Completed)
		}
	}
	if len(seen) == 0 {
		return
	}
	switch probe {
	case record.ProbeCounters:
		in.Counters = counts(seen, calls)
	case record.ProbeSyscalls:
		in.Syscalls = syscalls(seen, calls)
	case record.ProbeCPU:
		in.CPU = breakdown(seen, calls, categories.CPU)
		if cpu := matrix.Known(bare, matrix.CPUOf(end)); in.CPU != nil && cpu != nil { // exact, and undisturbed
			in.CPU.scale(cpu.Value)
		}
	case record.ProbeOffCPU:
		in.OffCPU = breakdown(seen, calls, categories.OffCPU)
	}
}

// counts returns the events per call, and derived ratios.
func counts(seen []*record.Seen, calls float64) []Count {
	sums := map[string]float64{}
	var names []string
	for _, s := range seen {
		for _, c := range s.Counters {
			if c.Name == "task-clock" { // in nanoseconds, as the kernel counts it
				c.Name, c.Count = "task clock (µs)", c.Count/1e3
			}
			names = lists.AppendNew(names, c.Name)
			sums[c.Name] += c.Count
		}
	}
	var all []Count
	for _, name := range names {
		all = append(all, Count{name, sums[name] / calls})
	}
	if sums["cycles"] > 0 && sums["instructions"] > 0 {
		all = append(all, Count{"instructions a cycle", sums["instructions"] / sums["cycles"]})
	}
	return all
}

// addUsage adds figures that every measured trial has, exact and without cost.
func (in *Inside) addUsage(bare []matrix.Trial, end func(matrix.Trial) record.Process) {
	for _, figure := range []struct {
		name string
		of   func(record.Process) *int64
		unit float64
	}{
		{"user time (µs)", func(p record.Process) *int64 { return p.UserNS }, 1e3},
		{"system time (µs)", func(p record.Process) *int64 { return p.SystemNS }, 1e3},
		{"voluntary switches", func(p record.Process) *int64 { return p.SwitchesVol }, 1},
		{"involuntary switches", func(p record.Process) *int64 { return p.SwitchesInv }, 1},
		{"minor page faults", func(p record.Process) *int64 { return p.MinorFaults }, 1},
		{"major page faults", func(p record.Process) *int64 { return p.MajorFaults }, 1},
	} {
		value := matrix.Known(bare, func(t matrix.Trial) float64 { return matrix.PerCall(t, matrix.Number(figure.of(end(t)))) / figure.unit })
		if value != nil {
			in.Counters = append(in.Counters, Count{figure.name, value.Value})
		}
	}
}

func syscalls(seen []*record.Seen, calls float64) []Syscall {
	counts, times := map[string]float64{}, map[string]float64{}
	for _, s := range seen {
		for _, c := range s.Syscalls {
			counts[c.Name] += float64(c.Count)
			times[c.Name] += matrix.Number(c.NS) // NaN if not measured
		}
	}
	var all []Syscall
	for name, count := range counts {
		one := Syscall{Name: name, PerCall: count / calls}
		if ns := times[name]; !math.IsNaN(ns) {
			one.Time = new(ns / count / 1e3)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Syscall) int { return cmp.Or(cmp.Compare(b.PerCall, a.PerCall), cmp.Compare(a.Name, b.Name)) })
	return all
}

// breakdown sorts stacks by category. It returns nil without stacks.
func breakdown(seen []*record.Seen, calls float64, rules []Rule) *Breakdown {
	b := &Breakdown{}
	sorted := newSorter(rules)
	inCategory, inFunction := map[string]float64{}, map[record.Frame]float64{}
	var all, kernel, depth, decoding, decodingDepth float64
	for _, s := range seen {
		if s.Stacks == nil {
			continue
		}
		b.Samples += s.Stacks.Samples
		for _, stack := range s.Stacks.Stacks {
			frames, weight := s.Stacks.Functions(stack), float64(stack.Weight)
			all += weight
			inCategory[sorted.of(frames)] += weight
			if len(frames) > 0 {
				inFunction[frames[len(frames)-1]] += weight
			}
			if above := slices.IndexFunc(frames, func(f record.Frame) bool { return f.In == record.InKernel }); above >= 0 {
				kernel += weight
				depth += weight * float64(above)
			}
			if outside := slices.IndexFunc(frames, decodes); outside >= 0 {
				decoding += weight
				decodingDepth += weight * float64(outside)
			}
		}
	}
	if all == 0 {
		return nil
	}
	for name, weight := range inCategory {
		b.Categories = append(b.Categories, Category{Name: name, Share: weight / all})
	}
	slices.SortFunc(b.Categories, func(x, y Category) int { return cmp.Or(cmp.Compare(y.Share, x.Share), cmp.Compare(x.Name, y.Name)) })
	for frame, weight := range inFunction {
		if weight >= leastSpent*all {
			b.Functions = append(b.Functions, Spent{frame.Function, frame.In, weight / all})
		}
	}
	slices.SortFunc(b.Functions, func(x, y Spent) int {
		return cmp.Or(cmp.Compare(y.Share, x.Share), cmp.Compare(x.Function, y.Function))
	})
	if kernel > 0 {
		b.Depth = new(depth / kernel)
	}
	if decoding > 0 {
		b.Decoding = &Decoding{Depth: decodingDepth / decoding, Share: decoding / all}
	}
	b.scale(all / calls / 1e3)
	return b
}

// leastSpent is the share of time from which a function is listed.
const leastSpent = 0.02

// decodes reports whether a function of a known library decodes a message.
func decodes(f record.Frame) bool {
	for _, begin := range []string{"google.golang.org/protobuf/proto.Unmarshal", "google::protobuf::MessageLite::Parse", "prost::Message::decode"} {
		if strings.HasPrefix(f.Function, begin) {
			return true
		}
	}
	return strings.Contains(f.Function, "pb.(*") && strings.Contains(f.Function, ").Unmarshal")
}

// scale sets the times, whose shares are known.
func (b *Breakdown) scale(perCall float64) {
	b.PerCall = perCall
	for i := range b.Categories {
		c := &b.Categories[i]
		c.PerCall = c.Share * perCall
		c.Error = perCall * math.Sqrt(c.Share*(1-c.Share)/max(1, float64(b.Samples)))
	}
}
