package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/data/claim"
	"wirelab.dev/internal/data/record"
)

// A Cell is one point of a part's matrix. It has all data that a trial needs.
type Cell struct {
	Part       string
	Variant    Variant
	Workload   string
	Size       Payload
	Clients    int
	Connection Connection // the zero value means the stack's default
	Network    Network    // the zero value means the machine's loopback
	Load       Load
	WarmUp     WarmUp
	Slices     bool // takes turns with the other variants of its point, if it can
	Stretch    bool // its window may become longer than planned, if it takes turns
	Unpinned   bool // both ends may use all CPUs of the trial
	Samples    bool
	Probe      Probe  // records more than times; empty in a trial that measures times
	Definition string // data that the workload needs in addition to its options
}

// A PlannedCell is one repeat of a cell. Repeats are numbered from 1.
type PlannedCell struct {
	Cell   Cell
	Repeat int
	// Block is the same, within a repeat, for trials that are measured together, by turns; 0: the
	// trial is measured alone.
	Block int
}

// QueueTime returns about how long a call takes because the calls of all clients wait for each other.
// It is an estimate, before anything is measured.
func (c Cell) QueueTime() time.Duration {
	alone := 100*time.Microsecond + 2*time.Nanosecond*time.Duration(c.Size.Request+c.Size.Response)
	if c.Connection.Mode.PerRequest() {
		alone += time.Millisecond // a handshake
	}
	return time.Duration(c.Clients) * alone
}

// cells lists every cell once, sorted by size, then clients, then stack.
func (p Part) cells() []Cell {
	cells := make([]Cell, 0, len(p.Sizes)*len(p.Clients)*len(p.Stacks))
	var probe Probe
	if p.Profile != "" {
		probe = record.ProbeAllocations
	}
	for _, size := range p.Sizes {
		for _, clients := range p.Clients {
			for _, variant := range p.Stacks {
				if !p.has(variant, size, clients) {
					continue
				}
				cells = append(cells, Cell{
					Part: p.Name, Variant: variant, Workload: p.Workload,
					Size: size, Clients: clients, Connection: p.Connection, Network: p.Network,
					Load: p.Load, WarmUp: p.WarmUp, Slices: !p.OneByOne, Stretch: p.Stretch, Unpinned: p.Unpinned, Samples: p.Samples, Probe: probe, Definition: p.Definition,
				})
			}
		}
	}
	return cells
}

// MostRepeats returns the largest number of repeats of the parts.
func MostRepeats(parts []Part) (most int) {
	for _, p := range parts {
		most = max(most, p.Repeats)
	}
	return most
}

// ComparesVersions reports whether the part measures two versions of a user's service.
func (p Part) ComparesVersions() bool {
	return slices.ContainsFunc(p.Stacks, func(v Variant) bool {
		_, is := v.Get(record.VersionOption)
		return is && v.Stack == record.ServiceStack
	})
}

func (p Part) has(variant Variant, size Payload, clients int) bool {
	return len(p.Only) == 0 || slices.ContainsFunc(p.Only, Choice{variant, size, clients}.equals)
}

// Plan lists all trials in the order in which they are measured: part by part, with Order inside
// each part. The order inside a part does not depend on the other parts.
func (s *Scenario) Plan() []PlannedCell {
	var plan []PlannedCell
	for _, p := range s.Parts {
		plan = append(plan, Order(s.Seed, p.cells(), p.probeTrials(), p.Repeats)...)
	}
	return plan
}

// PlanLooks plans a run that evaluates its results several times (looks). repeats holds each look's
// number of repeats. The trials of a look follow those of the previous look, in the order of Plan.
// A part without repeats, or with more repeats than a look, keeps its own number. again reports
// whether a look, numbered from 0, repeats a cell.
func (s *Scenario) PlanLooks(repeats []int, again func(look int, c Cell) bool) []PlannedCell {
	var plan []PlannedCell
	before := 0
	for look, most := range repeats {
		for _, p := range s.Parts {
			cells, from, to := p.cells(), before, p.Repeats
			chosen := slices.DeleteFunc(slices.Clone(cells), func(c Cell) bool { return !again(look, c) })
			if len(chosen) > 0 {
				to = max(most, p.Repeats)
			}
			if before > 0 {
				cells, from = chosen, max(before, p.Repeats)
			}
			longer := p
			longer.Repeats = to
			passes := p.probeTrials()
			for repeat, probed := range longer.probeTrials() {
				if repeat > p.Repeats {
					passes[repeat] = slices.DeleteFunc(probed, func(c Cell) bool { return !again(look, c) })
				}
			}
			for _, trial := range Order(s.Seed, cells, passes, to) {
				if trial.Repeat > from {
					plan = append(plan, trial)
				}
			}
		}
		before = most
	}
	return plan
}

// Order plans the given number of repeats of every cell, and each repeat's passes. A repeat is a
// block of all cells in a new random order. So compared cells are measured close together, and a
// drift, for example of the temperature, does not affect only one cell. The same seed gives the
// same order on every machine.
func Order(seed uint64, cells []Cell, passes map[int][]Cell, repeats int) []PlannedCell {
	plan := make([]PlannedCell, 0, len(cells)*repeats)
	random := rand.New(rand.NewPCG(seed, 0))
	for repeat := 1; repeat <= repeats; repeat++ {
		block := slices.Concat(cells, passes[repeat])
		random.Shuffle(len(block), func(i, j int) { block[i], block[j] = block[j], block[i] })
		if repeat == 1 { // a probe is set by what is known of the calls
			slices.SortStableFunc(block, func(a, b Cell) int { return min(len(a.Probe), 1) - min(len(b.Probe), 1) })
		}
		for _, c := range block {
			plan = append(plan, PlannedCell{Cell: c, Repeat: repeat})
		}
	}
	return plan
}

// A Probe records more of a trial than its times. It slows the trial down, so a trial has at most
// one.
type Probe string

// Probes lists all probes.
var Probes = lists.Map(record.Probes, func(name string) Probe { return Probe(name) })

// ParseProbes reads a list of probes such as cpu,life. The word all means all probes.
func ParseProbes(texts []string) ([]Probe, error) {
	var probes []Probe
	for _, text := range texts {
		if text == "all" {
			return Probes, nil
		}
		var probe Probe
		if err := probe.UnmarshalText([]byte(text)); err != nil {
			return nil, err
		}
		probes = lists.AppendNew(probes, probe)
	}
	return probes, nil
}

// UnmarshalText reads the name of a probe.
func (p *Probe) UnmarshalText(text []byte) error {
	if !record.IsProbe(string(text)) {
		return fmt.Errorf("unknown probe %q; %s", text, spelling.Suggest(string(text), record.Probes))
	}
	*p = Probe(text)
	return nil
}

// lifeProbeWindow is the window of closed loops with the life probe. One client makes thousands of calls.
// A user's service gets the requests that the user asked for, and no more.
const lifeProbeWindow = time.Second

// probeTrials returns the trials of a part that have a probe, by the number of their repeat. About
// as many trials have a probe as have none, so a run takes at most twice as long. Each probe has at
// least one trial of every cell.
func (p Part) probeTrials() map[int][]Cell {
	passes := map[int][]Cell{}
	cells := p.cells()
	each := max(1, p.Repeats/max(1, len(p.Probes)))
	for i, probe := range p.Probes {
		for pass := range each {
			repeat := 1 + (pass*len(p.Probes)+i)%p.Repeats
			for _, cell := range cells {
				cell.Probe, cell.Samples = probe, false // a row per call would hold latencies
				if probe == record.ProbeLife && cell.Load.Model == Closed && cell.Variant.Stack != record.ServiceStack {
					cell.Load = Load{Model: Closed, Duration: Duration(lifeProbeWindow)}
				}
				passes[repeat] = append(passes[repeat], cell)
			}
		}
	}
	return passes
}

// Without returns the scenario without the given probe.
func (s *Scenario) Without(probe Probe) *Scenario {
	without := new(*s)
	without.Parts = slices.Clone(s.Parts)
	for i, p := range s.Parts {
		without.Parts[i].Probes = slices.DeleteFunc(slices.Clone(p.Probes), func(other Probe) bool { return other == probe })
	}
	return without
}

// HasProbe reports whether any part uses the probe.
func (s *Scenario) HasProbe(probe Probe) bool {
	return slices.ContainsFunc(s.Parts, func(p Part) bool { return slices.Contains(p.Probes, probe) })
}

// ForClaims returns the scenario with only the cells that the wanted claims need, with the given
// number of repeats. It leaves out probes, samples and steps, because no claim needs them.
func (s *Scenario) ForClaims(wanted func(*Claim) bool, repeats int) (*Scenario, error) {
	only := *s
	only.Title = strings.TrimSpace(s.Title + " (claims)")
	only.Report, only.Claims = Report{}, nil
	var needed []Cell
	for _, c := range s.Claims {
		if !wanted(&c) {
			continue
		}
		only.Claims = append(only.Claims, c)
		cells, err := s.cellsOf(&c)
		if err != nil {
			return nil, err
		}
		needed = append(needed, cells...)
	}
	only.Parts = nil
	for _, p := range s.Parts {
		p.Only, p.Probes = nil, nil
		for _, cell := range needed {
			if cell.Part != p.Name {
				continue
			}
			lists.FindOrAdd(&p.Only, cell.choice(), cell.choice().equals)
			if cell.Probe != "" {
				p.Probes = []Probe{cell.Probe}
			}
		}
		if len(p.Only) == 0 { // the run then says which of its variants it left out
			p.Stacks = nil
		}
		if len(p.Only) > 0 || len(p.Yardsticks) > 0 && slices.ContainsFunc(only.Claims, func(c Claim) bool { return c.Part == p.Name }) {
			p.Repeats, p.Samples, p.Steps, p.Changes, p.Levers = repeats, false, nil, nil, Levers{}
			only.Parts = append(only.Parts, p)
		}
	}
	return &only, nil
}

func (c Choice) equals(other Choice) bool {
	return c.Stack.String() == other.Stack.String() && c.Size == other.Size && c.Clients == other.Clients
}

func (c Cell) choice() Choice { return Choice{c.Variant, c.Size, c.Clients} }

// cellsOf returns the cells of this scenario that a claim needs. A cell whose system calls are
// needed gets the probe that counts system calls.
func (s *Scenario) cellsOf(c *Claim) (cells []Cell, err error) {
	needs, err := s.Needs(c)
	if err != nil {
		return nil, err
	}
	for _, need := range needs {
		p, err := s.partOf(need.Cell.Part)
		if err != nil {
			return nil, err
		}
		size := slices.IndexFunc(p.Sizes, func(size Payload) bool { return int(size.Request) == need.Cell.Bytes })
		stack := slices.IndexFunc(p.Stacks, func(v Variant) bool { return v.String() == need.Cell.Variant })
		if size < 0 || stack < 0 || !slices.Contains(p.Clients, need.Cell.Clients) {
			continue // a yardstick that was not selected, or a cell that --quick removed
		}
		cell := Cell{Part: p.Name, Variant: p.Stacks[stack], Size: p.Sizes[size], Clients: need.Cell.Clients}
		if claim.NeedsSyscalls(need.Figure) {
			cell.Probe = record.ProbeSyscalls
		}
		cells = append(cells, cell)
	}
	return cells, nil
}

// NeededBy returns a function that reports whether one of these claims needs a cell. claims holds
// indices. It ignores wrong indices, which a damaged manifest may contain.
func (s *Scenario) NeededBy(claims []int) func(Cell) bool {
	var needed []Cell
	for _, i := range claims {
		if i >= 0 && i < len(s.Claims) {
			cells, _ := s.cellsOf(&s.Claims[i]) // an error only means that the claim needs no cells
			needed = append(needed, cells...)
		}
	}
	return func(c Cell) bool {
		return slices.ContainsFunc(needed, func(need Cell) bool { return need.Part == c.Part && need.choice().equals(c.choice()) })
	}
}

// longerWindow multiplies a short window if a part needs many calls, or if its calls are slow.
const longerWindow = 3

const (
	// shortWarmUp is the longest warm-up before a short window, unless calls wait long for each other.
	shortWarmUp = Duration(time.Second)
	// warmUpRounds is the number of calls of each client for which there is always time in a warm-up.
	warmUpRounds = 20
)

// longestWarmUp returns the longest warm-up of a part before a short window.
func (p *Part) longestWarmUp() Duration {
	longest := p.WarmUp.AtMost
	for _, c := range p.cells() {
		longest = min(longest, max(shortWarmUp, warmUpRounds*Duration(c.QueueTime())))
	}
	return longest
}

// needsLongerWindow reports whether calls wait for a handshake or an emulated link, or a claim needs
// the thousand calls of a P99.
func (s *Scenario) needsLongerWindow(p *Part) bool {
	return p.Connection.Mode.PerRequest() || p.Network.HasLink() || slices.ContainsFunc(s.Claims, func(c Claim) bool {
		needs, _ := s.Needs(&c) // ForClaims returns the error
		return slices.ContainsFunc(needs, func(need claim.Need) bool { return need.Cell.Part == p.Name && claim.NeedsP99(need.Figure) })
	})
}

// WithShortWindows returns the scenario with windows of the given length, or of three times the length
// where this is too short. A closed loop with a number of requests becomes a closed loop of this
// length, so that ratios stay comparable. A burst stays unchanged, because a smaller burst would
// answer another question. A part without warm-up measures how something begins, so it is reduced as
// by --quick. Warm-ups get a lower limit: on a noisy machine, many do not end before it.
func (s *Scenario) WithShortWindows(window Duration) *Scenario {
	brief := *s
	brief.Parts = slices.Clone(s.Parts)
	for i := range brief.Parts {
		p := &brief.Parts[i]
		if p.WarmUp.AtMost == 0 {
			quick := Reduction{Requests: s.Reduction.Requests, MaxClients: slices.Max(p.Clients), Repeats: p.Repeats}
			*p = quick.reduce(*p)
			continue
		}
		p.WarmUp.AtMost = p.longestWarmUp()
		p.WarmUp.AtLeast = min(p.WarmUp.AtLeast, p.WarmUp.AtMost)
		switch {
		case p.Load.Model == Closed:
			p.Load.Requests, p.Load.Total, p.Load.Duration = 0, 0, window
			p.Stretch = true
			if s.needsLongerWindow(p) {
				p.Load.Duration *= longerWindow
			}
		case p.Load.Model == Burst || p.Load.Model == Search:
		case p.Load.Duration > 2*window: // a schedule needs more time to show lost requests
			p.Load.Duration, p.Load.Total = 2*window, 0
		}
	}
	return &brief
}
