package analysis

import (
	"cmp"
	"math"
	"slices"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/check"
)

// point is a cell with its trials. Everything else is computed from points.
type point struct {
	cell record.Cell
	// withoutConnections is the variant without what it says of connections.
	withoutConnections string
	level              level // of the run
	limits             check.Limits

	trials []trial
}

// trial is a record with its times read.
type trial struct {
	*record.Record
	valid    bool
	level    level // of the run
	limits   check.Limits
	service  times
	response times // the service times where the record has no others
	wait     times
	// What the connections of the window waited for.
	connect, handshake, firstByte times
}

func (p *point) add(r *record.Record) error {
	t := trial{Record: r, valid: r.Valid(), level: p.level, limits: p.limits}
	defer func() { p.trials = append(p.trials, t) }()
	if r.Failure != "" {
		return nil
	}
	for _, kind := range []struct {
		from *latency.Distribution
		into *times
	}{
		{&r.Service, &t.service},
		{r.Response, &t.response},
		{r.Wait, &t.wait},
		{r.Connections.Connect, &t.connect},
		{r.Connections.Handshake, &t.handshake},
		{r.Connections.FirstByte, &t.firstByte},
	} {
		var err error
		if *kind.into, err = readTimes(kind.from); err != nil {
			return err
		}
	}
	if r.Response == nil && knowsResponse(r) {
		t.response = t.service
	}
	return nil
}

// valid are the trials that may be used.
func (p *point) valid() []trial { return filter(p.trials, func(t trial) bool { return t.valid }) }

// measured are the trials that came to a measurement, believed or not.
func (p *point) measured() []trial {
	return filter(p.trials, func(t trial) bool { return t.Failure == "" && t.service.count > 0 })
}

// filter returns the trials that are kept.
func filter(trials []trial, keep func(trial) bool) []trial {
	var kept []trial
	for _, t := range trials {
		if keep(t) {
			kept = append(kept, t)
		}
	}
	return kept
}

// ifOwnClient returns a figure that only wirelab's own client measures, and NaN for
// other clients.
func (t trial) ifOwnClient(value float64) float64 {
	if t.ClientProgram != "" {
		return math.NaN()
	}
	return value
}

// metric is a figure of one trial; NaN where it was not measured.
type metric func(trial) float64

// number is a record's number, and NaN where it was not measured.
func number[N int64 | float64](p *N) float64 {
	if p == nil {
		return math.NaN()
	}
	return float64(*p)
}

// The metrics that are used more than once.
func meanResponse(t trial) float64 { return t.response.mean }
func p99Response(t trial) float64  { return t.response.quantile(0.99) }
func tailResponse(t trial) float64 { return t.response.tail() }
func throughput(t trial) float64   { return t.ThroughputPerSecond() }

// The times that a client's calls took.
func serviceTimes(t trial) times  { return t.service }
func responseTimes(t trial) times { return t.response }
func waitTimes(t trial) times     { return t.wait }

// values are a metric's figures, one a trial.
func values(trials []trial, of metric) []float64 {
	figures := make([]float64, len(trials))
	for i, t := range trials {
		figures[i] = of(t)
	}
	return figures
}

// conditions are what must be equal for two points to be compared: all of the cell but
// the variant, and what comes with it.
func (p *point) conditions() record.Cell {
	cell := p.cell
	cell.Stack, cell.Variant, cell.Connection, cell.Target, cell.Network = "", "", "", "", record.Network{}
	cell.Load.InFlightLimit = 0 // an option of the variant
	return cell
}

// rivals returns the points with valid trials, in groups that can be compared.
func rivals(points []*point) [][]*point {
	groups := groupBy(points, (*point).conditions)
	for i, group := range groups {
		groups[i] = slices.DeleteFunc(group, func(p *point) bool { return len(p.valid()) == 0 })
	}
	return slices.DeleteFunc(groups, func(group []*point) bool { return len(group) == 0 })
}

// byClients are the points that differ in nothing but their number of clients, in
// its order.
func byClients(points []*point) [][]*point {
	curves := groupBy(points, func(p *point) record.Cell {
		cell := p.cell
		cell.Clients = 0
		return cell
	})
	for _, curve := range curves {
		slices.SortFunc(curve, func(a, b *point) int { return cmp.Compare(a.cell.Clients, b.cell.Clients) })
	}
	return curves
}

// groupBy puts what has equal keys together, in the order in which the keys first
// appear.
func groupBy[T any, K comparable](items []T, key func(T) K) [][]T {
	place := map[K]int{}
	var groups [][]T
	for _, item := range items {
		i, seen := place[key(item)]
		if !seen {
			i = len(groups)
			place[key(item)] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], item)
	}
	return groups
}

// findOrAdd returns the first element for which same is true; where there is none, it
// adds the given one and returns that.
func findOrAdd[T any](all *[]T, one T, same func(T) bool) *T {
	i := slices.IndexFunc(*all, same)
	if i < 0 {
		i = len(*all)
		*all = append(*all, one)
	}
	return &(*all)[i]
}
