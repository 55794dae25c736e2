// Package insight adds up the readings of probes: counters, system calls, CPU time by category,
// the stages of calls, call stacks and allocations. Probes run in extra trials, called passes.
// Explain divides the difference between two cells into parts.
//
// A probe slows its pass down. So CPU times by category are scaled to the CPU time of measured
// trials. This package does not know how probes work.
package insight

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// withoutLoad returns a cell without its load, which differs between measured trials and passes.
func withoutLoad(c record.Cell) record.Cell {
	c.Load = record.Load{}
	return c
}

// End returns the readings of one end.
func (i *Insight) End(name string) *EndReadings {
	if name == ClientEnd {
		return &i.Client
	}
	return &i.Server
}

// unobserved says what the probes did not see of the cell, and why.
func (i *Insight) unobserved() (all []string) {
	for _, end := range []string{ClientEnd, ServerEnd} {
		for _, missing := range i.End(end).Missing {
			all = append(all, fmt.Sprintf("%s, %s: %s", i.Name(), end, missing))
		}
	}
	for _, p := range i.Passes {
		if p.Probe == record.ProbeLife && i.Life == nil {
			all = append(all, fmt.Sprintf("%s: no stages of calls: %s", i.Name(), cmp.Or(strings.Join(p.Missing, "; "), "no call began and ended while the probe was on")))
		}
	}
	return all
}

// A probedCell holds the passes of a cell. The other fields are of its measured trials; they are nil if
// there are none.
type probedCell struct {
	passes []*record.Record
	bare   *matrix.Point
	mean   *matrix.Figure            // time of a call
	cpu    map[string]*matrix.Figure // CPU time per call, by end
}

// groupByCell groups passes by cell, sorted by part, message size, clients and position in points.
func groupByCell(points []*matrix.Point, passes []*record.Record) []probedCell {
	order, bare := map[record.Cell]int{}, map[record.Cell]*matrix.Point{}
	for i, p := range points {
		order[withoutLoad(p.Cell)], bare[withoutLoad(p.Cell)] = i, p
	}
	passes = slices.Clone(passes)
	slices.SortStableFunc(passes, func(a, b *record.Record) int { return cmp.Compare(a.Trial, b.Trial) })
	part := map[string]int{}
	for i, r := range passes {
		if _, known := part[r.Cell.Part]; !known {
			part[r.Cell.Part] = i
		}
	}
	groups := lists.GroupBy(passes, func(r *record.Record) record.Cell { return withoutLoad(r.Cell) })
	slices.SortStableFunc(groups, func(x, y []*record.Record) int {
		a, b := withoutLoad(x[0].Cell), withoutLoad(y[0].Cell)
		return cmp.Or(cmp.Compare(part[a.Part], part[b.Part]), a.Place.Compare(b.Place), cmp.Compare(order[a], order[b]))
	})
	means, client, server := matrix.NewFit(points, matrix.Mean), matrix.NewFit(points, "client-cpu"), matrix.NewFit(points, "server-cpu")
	return lists.Map(groups, func(group []*record.Record) probedCell {
		p := bare[withoutLoad(group[0].Cell)]
		return probedCell{group, p, means.Figure(p), map[string]*matrix.Figure{ClientEnd: client.Figure(p), ServerEnd: server.Figure(p)}}
	})
}

// categoriesOf returns the categories for an end of a variant.
func categoriesOf(variant, end string, all *Categories) *Categories {
	of := *all
	of.ofService = end == ServerEnd && strings.HasPrefix(variant, record.ServiceStack+":")
	return &of
}

// newInsight adds up the passes of one cell.
func newInsight(of probedCell, categories *Categories) Insight {
	cell := of.passes[0].Cell
	i := Insight{
		Part: cell.Part, Variant: cell.Variant, Place: cell.Place, Link: cell.Network.Link, Mean: of.mean,
		Settings: settingsOf(cell), network: cell.Network, point: of.bare,
	}
	for _, probe := range record.Probes {
		passes := slices.DeleteFunc(slices.Clone(of.passes), func(r *record.Record) bool { return r.Probe != probe })
		if len(passes) == 0 || probe == record.ProbeAllocations && of.bare == nil { // a study's part may have only profiled trials
			continue
		}
		i.Passes = append(i.Passes, newPass(probe, of.bare, passes))
		if probe == record.ProbeLife {
			i.Life, i.Tail = newLife(passes), newTail(passes)
		}
		if probe == record.ProbeLife || probe == record.ProbeAllocations {
			continue
		}
		i.Client.addProbe(probe, passes, matrix.ClientOf, of.cpu[ClientEnd], categoriesOf(i.Variant, ClientEnd, categories))
		i.Server.addProbe(probe, passes, matrix.ServerOf, of.cpu[ServerEnd], categoriesOf(i.Variant, ServerEnd, categories))
	}
	if of.bare != nil {
		i.Facts = factsOf(of.bare)
		trials := of.bare.TrialsWith(record.Counts)
		i.Client.addUsage(trials, matrix.ClientOf)
		i.Server.addUsage(trials, matrix.ServerOf)
	}
	i.addWaits(of.passes, categoriesOf(i.Variant, ServerEnd, categories))
	return i
}

func newPass(probe string, bare *matrix.Point, of []*record.Record) Pass {
	p := Pass{Probe: probe, Trials: len(of)}
	for _, r := range of {
		p.Requests += r.Requests
		if r.Outside != nil {
			p.Requests += *r.Outside
		}
		for _, seen := range []*record.Seen{r.Server.Seen, r.Client.Seen} {
			if seen == nil {
				continue
			}
			p.Method = cmp.Or(p.Method, seen.Method) // the server's: a probe may see more of it
			for _, missing := range seen.Missing {
				p.Missing = lists.AppendNew(p.Missing, missing)
			}
		}
		if r.Life != nil {
			p.Method = r.Life.Method
			for _, missing := range r.Life.Missing {
				p.Missing = lists.AppendNew(p.Missing, missing)
			}
		}
		if probe == record.ProbeAllocations && (r.Client.Allocations != nil || r.Server.Allocations != nil) {
			p.Method = "heap profile of the Go runtime"
		}
	}
	if bare != nil && probe != record.ProbeLife { // the probe life measures its own cost
		watched := &matrix.Point{Cell: bare.Cell, Level: bare.Level}
		for _, r := range of {
			if watched.AddTrial(r) != nil { // the record's times are unreadable
				return p
			}
		}
		if len(bare.TrialsWith(record.Times)) > 0 && len(watched.TrialsWith(record.Times)) > 0 {
			if cost, known := matrix.NewFit([]*matrix.Point{watched, bare}, matrix.Mean).Ratio(watched, bare); known {
				p.Cost = new(cost.Figure())
			}
		}
	}
	return p
}

// addProbe adds the readings of one probe. cpu is the CPU time per call of measured trials, or nil.
func (in *EndReadings) addProbe(probe string, passes []*record.Record, end func(matrix.Trial) record.Process, cpu *matrix.Figure, categories *Categories) {
	var seen []*record.Seen
	var calls float64
	var reasons []string
	for _, r := range passes {
		if s := end(matrix.Trial{Record: r}).Seen; s != nil && r.Completed > 0 {
			seen = append(seen, s)
			calls += float64(r.Completed)
			for _, missing := range s.Missing {
				reasons = lists.AppendNew(reasons, missing)
			}
		}
	}
	found := false
	switch probe {
	case record.ProbeCounters:
		in.Counters = countsPerCall(seen, calls)
		found = len(in.Counters) > 0
	case record.ProbeSyscalls:
		in.Syscalls = syscalls(seen, calls)
		found = len(in.Syscalls) > 0
	case record.ProbeCPU:
		in.CPU = breakdown(seen, calls, categories.cpuSorter().lookForHandlers(seen))
		if found = in.CPU != nil; found && cpu != nil {
			in.CPU.setTimes(cpu.Value)
		}
	case record.ProbeOffCPU:
		in.OffCPU = breakdown(seen, calls, categories.offCPUSorter())
		found = in.OffCPU != nil
	}
	if !found {
		in.Missing = append(in.Missing, "nothing by "+probe+": "+cmp.Or(strings.Join(reasons, "; "), "no process of this end was observed"))
	}
}

// countsPerCall returns the events per call, and the instructions per cycle.
func countsPerCall(seen []*record.Seen, calls float64) []Count {
	sums := map[string]float64{}
	var names []string
	for _, s := range seen {
		for _, c := range s.Counters {
			if c.Name == "task-clock" { // the kernel counts it in nanoseconds
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

// addUsage adds counters of the measured trials, which need no probe.
func (in *EndReadings) addUsage(bare []matrix.Trial, end func(matrix.Trial) record.Process) {
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
		value := matrix.KnownFigure(bare, func(t matrix.Trial) float64 { return matrix.PerCall(t, matrix.Number(figure.of(end(t)))) / figure.unit })
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

// breakdown divides the time of call stacks by category. It returns nil without stacks.
func breakdown(seen []*record.Seen, calls float64, sorted *sorter) *Breakdown {
	b := &Breakdown{}
	inCategory, inFunction, under := map[string]float64{}, map[record.Frame]float64{}, callsByCategory{}
	var all, kernel, depth, decoding, decodingDepth float64
	for _, s := range seen {
		if s.Stacks == nil {
			continue
		}
		b.Samples += s.Stacks.Samples
		for _, stack := range s.Stacks.Stacks {
			frames, weight := s.Stacks.Functions(stack), float64(stack.Weight)
			all += weight
			category := sorted.categoryOf(frames)
			inCategory[category] += weight
			under.add(category, frames, weight)
			if len(frames) > 0 {
				inFunction[frames[len(frames)-1]] += weight
			}
			if above := slices.IndexFunc(frames, func(f record.Frame) bool { return f.In == record.InKernel }); above >= 0 {
				kernel += weight
				depth += weight * float64(above)
			}
			if outside := slices.IndexFunc(frames, decodesMessage); outside >= 0 {
				decoding += weight
				decodingDepth += weight * float64(outside)
			}
		}
	}
	if all == 0 {
		return nil
	}
	for name, weight := range inCategory {
		function, in := under.functions(name, weight)
		b.Categories = append(b.Categories, Category{Name: name, Share: weight / all, Function: function, In: in})
	}
	slices.SortFunc(b.Categories, func(x, y Category) int { return cmp.Or(cmp.Compare(y.Share, x.Share), cmp.Compare(x.Name, y.Name)) })
	for frame, weight := range inFunction {
		if weight >= leastFunctionShare*all {
			b.Functions = append(b.Functions, FunctionTime{frame.Function, frame.In, weight / all})
		}
	}
	slices.SortFunc(b.Functions, func(x, y FunctionTime) int {
		return cmp.Or(cmp.Compare(y.Share, x.Share), cmp.Compare(x.Function, y.Function))
	})
	if kernel > 0 {
		b.Depth = new(depth / kernel)
	}
	if decoding > 0 {
		b.Decoding = &Decoding{Depth: decodingDepth / decoding, Share: decoding / all}
	}
	b.setTimes(all / calls / 1e3)
	return b
}

// callsByCategory holds the time of each category within the calls of each function.
type callsByCategory map[string]map[record.Frame]*struct{ weight, depth float64 }

// add adds a call stack. The kernel's functions do not say what a program does.
func (c callsByCategory) add(category string, frames []record.Frame, weight float64) {
	if c[category] == nil {
		c[category] = map[record.Frame]*struct{ weight, depth float64 }{}
	}
	for depth, f := range frames {
		if f.In == record.InKernel {
			break
		}
		if slices.Index(frames, f) < depth {
			continue // a recursive function counts once
		}
		of := c[category][f]
		if of == nil {
			of = new(struct{ weight, depth float64 })
			c[category][f] = of
		}
		of.weight += weight
		of.depth += weight * float64(depth)
	}
}

// functions returns the functions in whose calls most of a category's time passes: the program's, and the one of a
// library that it calls.
func (c callsByCategory) functions(category string, all float64) (own, in string) {
	own = c.deepest(category, all, isApplication)
	in = c.deepest(category, all, func(f record.Frame) bool {
		return category == applicationCategory || !strings.HasPrefix(f.Function, "runtime.")
	})
	switch own {
	case "":
		return in, ""
	case in:
		return own, ""
	}
	return own, in
}

// deepest returns the function that is the farthest down the call stacks, of the counted functions in which most
// of a category's time passes.
func (c callsByCategory) deepest(category string, all float64, counts func(record.Frame) bool) (function string) {
	const most = 0.6
	depth := -1.0
	for f, of := range c[category] {
		if of.weight < most*all || !counts(f) {
			continue
		}
		if mean := of.depth / of.weight; mean > depth || mean == depth && f.Function < function {
			function, depth = f.Function, mean
		}
	}
	return function
}

// leastFunctionShare is the least share of time of a function in Breakdown.Functions.
const leastFunctionShare = 0.02

// decodesMessage reports whether a function of a known library decodes a message.
func decodesMessage(f record.Frame) bool {
	for _, begin := range []string{"google.golang.org/protobuf/proto.Unmarshal", "google::protobuf::MessageLite::Parse", "prost::Message::decode"} {
		if strings.HasPrefix(f.Function, begin) {
			return true
		}
	}
	return strings.Contains(f.Function, "pb.(*") && strings.Contains(f.Function, ").Unmarshal")
}

// setTimes sets the times of all categories from their shares and the time per call.
func (b *Breakdown) setTimes(perCall float64) {
	b.PerCall = perCall
	for i := range b.Categories {
		c := &b.Categories[i]
		c.PerCall = c.Share * perCall
		c.Error = perCall * math.Sqrt(c.Share*(1-c.Share)/max(1, float64(b.Samples)))
	}
}
