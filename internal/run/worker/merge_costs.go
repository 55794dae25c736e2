package worker

import (
	"cmp"
	"slices"
	"strings"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/wire/conn"
)

// costs is what the parts used, opened and sent together.
func (m *merger) costs() {
	m.connections()
	m.usage()
	m.traffic()
	m.machines()
	r := &m.result
	for i := range m.parts {
		p, agent := m.parts[i].Result.Client, m.parts[i].Agent
		r.EngineOwnNS = max(r.EngineOwnNS, p.EngineOwnNS)
		r.Census = cmp.Or(r.Census, p.Census) // any call's bytes are as good as another's
		if p.CensusFailed != "" && r.CensusFailed == "" {
			r.CensusFailed = agent + ": " + p.CensusFailed
		}
		if p.SamplesFailed != "" && r.SamplesFailed == "" {
			r.SamplesFailed = agent + ": " + p.SamplesFailed
		}
	}
	if r.Census != nil {
		r.CensusFailed = ""
	}
}

// connections adds up what was wanted and what was opened.
func (m *merger) connections() {
	into := &m.result.Connections
	size := 0
	for p := range m.clients() {
		c := p.Connections
		into.Want += c.Want
		into.During += c.During
		into.Total = plus(into.Total, c.Total)
		into.Window = plus(into.Window, c.Window)
		mode, err := scenario.ParseConnection(c.Mode)
		if err != nil { // another program's
			into.Mode = cmp.Or(into.Mode, c.Mode)
			continue
		}
		size += mode.Size
		into.Mode = scenario.Connection{Mode: mode.Mode, Size: size}.String()
	}
}

func plus(a, b conn.Counts) conn.Counts {
	return conn.Counts{
		Opened: a.Opened + b.Opened, Failed: a.Failed + b.Failed, Open: a.Open + b.Open,
		Full: a.Full + b.Full, Resumed: a.Resumed + b.Resumed, Early: a.Early + b.Early,
		EarlyRefused: a.EarlyRefused + b.EarlyRefused, HandshakeFail: a.HandshakeFail + b.HandshakeFail,
	}
}

// usage is not known where that of a part is not.
func (m *merger) usage() {
	var all *probe.Window
	for p := range m.clients() {
		switch {
		case p.Usage == nil:
			return
		case all == nil:
			all = new(*p.Usage)
		default:
			all = new(all.Plus(*p.Usage))
		}
	}
	m.result.Usage = all
}

// traffic is not known where that of a part is not. Its span is to the window as those of the
// parts are to theirs.
func (m *merger) traffic() {
	var all Traffic
	var spans, lengths float64
	for p := range m.clients() {
		if p.Traffic == nil {
			return
		}
		all.Traffic = all.Plus(p.Traffic.Traffic)
		spans += float64(p.Traffic.SpanNS)
		lengths += float64(p.EndNS - p.BeginNS)
	}
	all.SpanNS = int64(spans / max(1, lengths) * float64(m.result.EndNS-m.result.BeginNS))
	m.result.Traffic = &all
}

// machines keeps the worst of the noise. Of what the kernel let the processes use it keeps
// what is a sum: CPUs of several machines have the same numbers and are not the same.
func (m *merger) machines() {
	r := &m.result
	allowed := &host.Allowance{}
	quota := true // on every part
	for p := range m.clients() {
		if n := p.Noise; n != nil {
			worst := cmp.Or(r.Noise, &Noise{})
			r.Noise = &Noise{
				LostBefore: max(worst.LostBefore, n.LostBefore), LostAfter: max(worst.LostAfter, n.LostAfter),
				LargestGapNS: max(worst.LargestGapNS, n.LargestGapNS),
			}
		}
		if p.Allowance == nil {
			allowed = nil
		}
		if allowed != nil {
			allowed.QuotaCPUs += p.Allowance.QuotaCPUs
			allowed.TracedBy = cmp.Or(allowed.TracedBy, p.Allowance.TracedBy)
			quota = quota && p.Allowance.QuotaCPUs > 0
		}
	}
	if allowed != nil && !quota {
		allowed.QuotaCPUs = 0
	}
	r.Allowance = allowed
}

// stacks adds up what was seen of the parts' call stacks, and lines up the instants of calls.
// They are there only where the spec asked for them, of every part.
func (m *merger) stacks() {
	r := &m.result
	for p := range m.clients() {
		if p.Allocations != nil {
			r.Allocations = addAllocations(r.Allocations, p.Allocations)
		}
		if p.CPU != nil {
			r.CPU = addStacks(r.CPU, p.CPU)
		}
		r.Calls = append(r.Calls, p.Calls...)
	}
	if r.Allocations != nil {
		slices.SortStableFunc(r.Allocations.Stacks, func(a, b record.AllocationStack) int { return cmp.Compare(b.Bytes, a.Bytes) })
	}
	slices.SortFunc(r.Calls, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	r.Calls = r.Calls[:min(len(r.Calls), mostInstants)]
}

func addAllocations(into, more *record.Allocations) *record.Allocations {
	all := *cmp.Or(into, &record.Allocations{})
	all.Bytes += more.Bytes
	all.Objects += more.Objects
	all.Stacks = slices.Clone(all.Stacks)
	place := map[string]int{}
	for i, s := range all.Stacks {
		place[strings.Join(s.Functions, "\n")] = i
	}
	for _, s := range more.Stacks {
		if i, known := place[strings.Join(s.Functions, "\n")]; known {
			all.Stacks[i].Bytes += s.Bytes
			all.Stacks[i].Objects += s.Objects
		} else {
			all.Stacks = append(all.Stacks, s)
		}
	}
	return &all
}

// addStacks puts the stacks of another process behind those that there are: whoever draws
// them adds up what is the same.
func addStacks(into, more *record.Stacks) *record.Stacks {
	all := *cmp.Or(into, &record.Stacks{Unit: more.Unit})
	all.Samples += more.Samples
	all.Lost += more.Lost
	behind := len(all.Frames)
	all.Frames = append(slices.Clone(all.Frames), more.Frames...)
	all.Stacks = slices.Clone(all.Stacks)
	for _, s := range more.Stacks {
		frames := make([]int, len(s.Frames))
		for i, frame := range s.Frames {
			frames[i] = behind + frame
		}
		all.Stacks = append(all.Stacks, record.Stack{Frames: frames, Weight: s.Weight, Count: s.Count})
	}
	return &all
}
