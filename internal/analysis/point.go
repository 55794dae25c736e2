package analysis

import (
	"math"
	"reflect"

	"wirelab.dev/internal/latency"
	"wirelab.dev/internal/record"
)

// point is a cell with its trials, of which the rest of the package is a
// reading.
type point struct {
	cell record.Cell
	// withoutConnections is the variant without what it says of connections.
	withoutConnections string

	trials []trial
	// merged holds the response times of the valid trials together.
	merged *latency.Histogram
}

// trial is a record with its histograms read. It keeps figures, not the
// histograms: decoded they are 216 KiB each.
type trial struct {
	*record.Record
	valid    bool
	service  times
	response times // the service times where the record has no others
	wait     times
	// What the connections of the window waited for.
	connect, handshake, firstByte times
}

// times are the figures of one trial's distribution, without intervals.
type times struct {
	count int64
	Latencies
}

func (p *point) add(r *record.Record) error {
	t := trial{Record: r, valid: r.Valid()}
	defer func() { p.trials = append(p.trials, t) }()
	if r.Failure != "" {
		return nil
	}
	histogram, err := read(&r.Service, &t.service)
	if err != nil {
		return err
	}
	t.response = t.service
	if r.Response != nil {
		if histogram, err = read(r.Response, &t.response); err != nil {
			return err
		}
	}
	for _, further := range []struct {
		from *latency.Distribution
		into *times
	}{
		{r.Wait, &t.wait},
		{r.Connections.Connect, &t.connect},
		{r.Connections.Handshake, &t.handshake},
		{r.Connections.FirstByte, &t.firstByte},
	} {
		if further.from == nil {
			continue
		}
		if _, err := read(further.from, further.into); err != nil {
			return err
		}
	}
	if t.valid {
		p.merged.Merge(histogram)
	}
	return nil
}

func read(from *latency.Distribution, into *times) (*latency.Histogram, error) {
	if from.Count == 0 {
		return latency.NewHistogram(), nil
	}
	into.count = from.Count
	into.Mean.Value = float64(from.Sum) / float64(from.Count) / 1e3
	into.Max.Value = float64(from.Max) / 1e3
	h, quantile := latency.NewHistogram(), func(float64) float64 { return math.NaN() }
	if !from.OnlyTotals() {
		var err error
		if h, err = from.Decode(); err != nil {
			return nil, err
		}
		quantile = func(at float64) float64 { return float64(h.Quantile(at)) / 1e3 }
	}
	figures := reflect.ValueOf(&into.Latencies).Elem()
	for _, q := range Quantiles {
		figures.FieldByIndex(q.Index).Set(reflect.ValueOf(Figure{Value: quantile(q.At)}))
	}
	return h, nil
}

// valid are the trials that may be used.
func (p *point) valid() []trial {
	var valid []trial
	for _, t := range p.trials {
		if t.valid {
			valid = append(valid, t)
		}
	}
	return valid
}

// measured are the trials that came to a measurement, believed or not.
func (p *point) measured() []trial {
	var measured []trial
	for _, t := range p.trials {
		if t.Failure == "" && t.service.count > 0 {
			measured = append(measured, t)
		}
	}
	return measured
}

// tail is how many times longer the slowest hundredth takes than the median.
func (t times) tail() float64 {
	if t.P50.Value == 0 {
		return 0
	}
	return t.P99.Value / t.P50.Value
}

// told is a figure that only wirelab's own client tells.
func (t trial) told(value float64) float64 {
	if t.ClientProgram != "" {
		return math.NaN()
	}
	return value
}

// metric is a figure of one trial.
type metric func(trial) float64

// The metrics that more than one reading uses.
func meanResponse(t trial) float64 { return t.response.Mean.Value }
func p99Response(t trial) float64  { return t.response.P99.Value }
func tailResponse(t trial) float64 { return t.response.tail() }
func throughput(t trial) float64   { return t.ThroughputPerSecond() }

// values are a metric's figures, one a trial.
func values(trials []trial, of metric) []float64 {
	figures := make([]float64, len(trials))
	for i, t := range trials {
		figures[i] = of(t)
	}
	return figures
}

// contest is what must be equal for two points to be compared: all but the
// variant, and what comes with it.
type contest struct {
	part, workload              string
	requestBytes, responseBytes int
	clients                     int
	load                        record.Load
}

func (p *point) contest() contest {
	c := contest{
		part: p.cell.Part, workload: p.cell.Workload,
		requestBytes: p.cell.RequestBytes, responseBytes: p.cell.ResponseBytes,
		clients: p.cell.Clients, load: p.cell.Load,
	}
	c.load.InFlightLimit = 0 // an option of the variant
	return c
}

// groupBy puts the points with equal keys together, in the order in which the
// keys first appear.
func groupBy[K comparable](points []*point, key func(*point) K) [][]*point {
	place := map[K]int{}
	var groups [][]*point
	for _, p := range points {
		i, seen := place[key(p)]
		if !seen {
			i = len(groups)
			place[key(p)] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], p)
	}
	return groups
}
