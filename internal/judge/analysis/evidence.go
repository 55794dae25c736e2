package analysis

import (
	"maps"
	"math"
	"slices"

	"wirelab.dev/internal/data/claim"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// evidence is what a claim is evaluated over: the trials of a run, a repeat at a time.
type evidence struct {
	study        *study
	points, seen []*point // seen are the passes that counted system calls
	look         claimLook
	repeat       int
	unasked      string // a yardstick that was left out
	figures      map[claim.Need]*ClaimFigure
	order        []claim.Need
}

// evaluate gives what the expression comes to in each repeat.
func (e *evidence) evaluate(expression *claim.Expression, part, variant string) []claim.Value {
	repeats := map[int]bool{}
	for _, p := range slices.Concat(e.points, e.seen) {
		for _, t := range p.trials {
			if t.Repeat <= e.look.repeats {
				repeats[t.Repeat] = true
			}
		}
	}
	var values []claim.Value
	for _, repeat := range slices.Sorted(maps.Keys(repeats)) {
		e.repeat = repeat
		values = append(values, expression.Evaluate(part, variant, e))
	}
	return values
}

// Figure is that of the cell's trial in the repeat, if it is valid.
func (e *evidence) Figure(name string, of claim.Cell) float64 {
	from := e.points
	if claim.NeedsSyscalls(name) {
		from = e.seen
	}
	p := e.find(from, of)
	if p == nil || claimFigures[name] == nil {
		return math.NaN()
	}
	e.tell(name, p)
	for _, t := range usable(name, p) {
		if t.Repeat == e.repeat {
			return claimFigures[name](t)
		}
	}
	return math.NaN()
}

// usable are the trials that a figure may be of. What made a trial invalid may be the very
// requests that were lost: to leave it out would count the survivors alone.
func usable(name string, p *point) []trial {
	if name == "answered" {
		return p.measured()
	}
	return p.valid()
}

// tell keeps the figure over all repeats, to be shown.
func (e *evidence) tell(name string, p *point) {
	need := claim.Need{Figure: name, Cell: claim.Cell{Part: p.cell.Part, Variant: p.cell.Variant, Bytes: p.cell.RequestBytes, Clients: p.cell.Clients}}
	if e.figures[need] != nil {
		return
	}
	trials := filter(usable(name, p), func(t trial) bool { return t.Repeat <= e.look.repeats })
	e.order = append(e.order, need)
	e.figures[need] = &ClaimFigure{
		Figure: name, Part: p.cell.Part, Variant: p.cell.Variant, Payload: p.cell.Payload, Clients: p.cell.Clients,
		Value: known(trials, claimFigures[name]),
	}
}

func (e *evidence) told() []ClaimFigure {
	figures := make([]ClaimFigure, 0, len(e.order))
	for _, need := range e.order {
		figures = append(figures, *e.figures[need])
	}
	return figures
}

// of are the points of a part and a variant, with the fewest clients and the smallest size
// first.
func (e *evidence) of(points []*point, cell claim.Cell) []*point {
	var names []string
	var inPart []*point
	for _, p := range points {
		if p.cell.Part == cell.Part {
			inPart, names = append(inPart, p), append(names, p.cell.Variant)
		}
	}
	i := scenario.FindVariant(names, cell.Variant)
	if i < 0 {
		if scenario.FindVariant(e.study.leftOut, cell.Variant) >= 0 {
			e.unasked = cell.Variant
		}
		return nil
	}
	variant := names[i]
	inPart = slices.DeleteFunc(inPart, func(p *point) bool { return p.cell.Variant != variant })
	slices.SortStableFunc(inPart, func(a, b *point) int {
		return slices.Compare([]int{a.cell.Clients, a.cell.RequestBytes}, []int{b.cell.Clients, b.cell.RequestBytes})
	})
	return inPart
}

func (e *evidence) find(points []*point, cell claim.Cell) *point {
	for _, p := range e.of(points, cell) {
		if (cell.Bytes == claim.Least || p.cell.RequestBytes == cell.Bytes) && (cell.Clients == claim.Least || p.cell.Clients == cell.Clients) {
			return p
		}
	}
	return nil
}

// Sizes are those that were measured with the clients.
func (e *evidence) Sizes(of claim.Cell) []int {
	return e.along(of, func(p *point) (along, other int) { return p.cell.RequestBytes, p.cell.Clients }, of.Clients)
}

// Clients are those that were measured with the size.
func (e *evidence) Clients(of claim.Cell) []int {
	return e.along(of, func(p *point) (along, other int) { return p.cell.Clients, p.cell.RequestBytes }, of.Bytes)
}

func (e *evidence) along(of claim.Cell, axes func(*point) (along, other int), wanted int) []int {
	points := e.of(e.points, of)
	if wanted == claim.Least && len(points) > 0 {
		_, wanted = axes(points[0])
	}
	var all []int
	for _, p := range points {
		if along, other := axes(p); other == wanted {
			all = append(all, along)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// claimFigures are what claims are about, by the names of package claim.
var claimFigures = map[string]metric{
	"mean":            meanResponse,
	"p50":             func(t trial) float64 { return t.response.quantile(0.5) },
	"p90":             func(t trial) float64 { return t.response.quantile(0.9) },
	"p95":             func(t trial) float64 { return t.response.quantile(0.95) },
	"p99":             p99Response,
	"tail":            tailResponse,
	"service":         func(t trial) float64 { return t.service.mean },
	"throughput":      throughput,
	"answered":        answered,
	"cpu":             cpuOfBoth,
	"client-cpu":      cpuOf(clientOf),
	"server-cpu":      cpuOf(serverOf),
	"server-cores":    func(t trial) float64 { return coresInUse(t, t.Server) },
	"client-user":     userShare(clientOf),
	"server-user":     userShare(serverOf),
	"client-switches": switchesOf(clientOf),
	"server-switches": switchesOf(serverOf),
	"client-faults":   faultsPerCall(clientOf),
	"server-faults":   faultsPerCall(serverOf),
	"client-gc":       func(t trial) float64 { return collectorShare(t.Client) },
	"server-gc":       func(t trial) float64 { return collectorShare(t.Server) },
	"client-assist":   func(t trial) float64 { return assistShare(t.Client) },
	"server-assist":   func(t trial) float64 { return assistShare(t.Server) },
	"client-run-wait": func(t trial) float64 { return runWait(t.Client) },
	"server-run-wait": func(t trial) float64 { return runWait(t.Server) },
	"server-memory":   peakOfServer,
	"client-futex":    syscallsOf("futex", clientOf),
	"server-futex":    syscallsOf("futex", serverOf),
	"request-bytes":   wireBytes(func(w *record.Wire) record.WireBytes { return w.Request }),
	"response-bytes":  wireBytes(func(w *record.Wire) record.WireBytes { return w.Response }),
	"opened":          func(t trial) float64 { return t.ifOwnClient(perCall(t, float64(t.Connections.During))) },
	"trips":           inTrips(func(t trial) times { return t.response }),
	"connect-trips":   inTrips(func(t trial) times { return t.connect }),
	"handshake-trips": inTrips(func(t trial) times { return t.handshake }),
	"handshake":       func(t trial) float64 { return t.handshake.quantile(0.5) },
}

// answered is the share of a window's requests that were not lost. One in which all were
// lost has a hundred-thousandth, so that there is a ratio.
func answered(t trial) float64 {
	const least = 1e-5
	if t.Requests == 0 {
		return math.NaN()
	}
	return max(least, 1-float64(t.Failed())/float64(t.Requests))
}

// inTrips is a median in round trips of the link; unknown where no link has a delay to
// measure by.
func inTrips(of func(trial) times) metric {
	return func(t trial) float64 {
		if t.Cell.Network.DelayNS == 0 {
			return math.NaN()
		}
		return of(t).quantile(0.5) * 1e3 / float64(2*t.Cell.Network.DelayNS)
	}
}

func wireBytes(side func(*record.Wire) record.WireBytes) metric {
	return func(t trial) float64 {
		if t.Wire == nil {
			return math.NaN()
		}
		return side(t.Wire).TotalBytes()
	}
}
