package probe

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"time"
)

// A Series holds the readings of one process, in order of time. Its JSON is a list of differences
// for each figure that is not always zero: 150 KB for a full series of a busy process.
type Series struct {
	samples []Usage
	// problem says why sampling ended early.
	problem string
}

// Between returns the differences between two instants: counters by interpolation at the edges,
// gauges from the last reading, and the maximum of each gauge. It fails if readings are missing.
func (s Series) Between(startNS, endNS int64) (Window, error) {
	if endNS < startNS {
		return Window{}, fmt.Errorf("usage of the window: it ends %d ns before it starts", startNS-endNS)
	}
	if len(s.samples) == 0 {
		return Window{}, fmt.Errorf("usage of the window: no readings%s", s.because())
	}
	first, last := s.samples[0].AtNS, s.samples[len(s.samples)-1].AtNS
	if startNS < first || endNS > last {
		return Window{}, fmt.Errorf("usage of the window: readings cover %d to %d ns, the window is %d to %d%s",
			first, last, startNS, endNS, s.because())
	}
	start, end := s.at(startNS), s.at(endNS)
	window := Window{Usage: end.Since(start), Most: s.most(startNS, endNS), StoppedNS: s.stopped(startNS, endNS)}
	if end.MaxRSSBytes > start.MaxRSSBytes {
		window.Most.RSSBytes = end.MaxRSSBytes
	}
	return window, nil
}

// CPU returns the processor time between the first reading and the last.
func (s Series) CPU() time.Duration {
	if len(s.samples) == 0 {
		return 0
	}
	spent := s.samples[len(s.samples)-1].Since(s.samples[0])
	return time.Duration(spent.UserNS + spent.SystemNS)
}

// Stretches returns the processor time, in nanoseconds, of up to count stretches one after the
// other. It ends before the first that the series does not cover as a whole.
func (s Series) Stretches(beginNS, eachNS int64, count int) []int64 {
	if len(s.samples) == 0 || eachNS <= 0 || beginNS < s.samples[0].AtNS {
		return nil
	}
	var used []int64
	last := s.samples[len(s.samples)-1].AtNS
	before := s.at(min(beginNS, last))
	for range count {
		if beginNS += eachNS; beginNS > last {
			break
		}
		now := s.at(beginNS)
		used = append(used, int64(now.CPU()-before.CPU()))
		before = now
	}
	return used
}

// most returns the maximum of each gauge from the window's start to its end.
func (s Series) most(startNS, endNS int64) Held {
	most := s.at(startNS)
	for i := range s.samples {
		if at := s.samples[i].AtNS; startNS <= at && at <= endNS {
			for _, column := range columns {
				if column.gauge {
					*column.of(&most) = max(*column.of(&most), *column.of(&s.samples[i]))
				}
			}
		}
	}
	return heldBy(&most)
}

// stopped returns the longest time between two readings that touch the window, less the usual time
// and less the CPU time that the process used in it: a busy process may also be late.
func (s Series) stopped(startNS, endNS int64) int64 {
	if len(s.samples) < 3 {
		return 0 // no usual time
	}
	between := make([]int64, 0, len(s.samples)-1)
	for i := range s.samples[1:] {
		between = append(between, s.samples[i+1].AtNS-s.samples[i].AtNS)
	}
	longest := int64(0)
	usual := slices.Sorted(slices.Values(between))[len(between)/2]
	for i, gap := range between {
		before, after := &s.samples[i], &s.samples[i+1]
		if after.AtNS > startNS && before.AtNS < endNS {
			longest = max(longest, gap-usual-int64(after.CPU()-before.CPU()))
		}
	}
	return longest
}

func (s Series) because() string {
	if s.problem == "" {
		return ""
	}
	return ": " + s.problem
}

// at estimates the reading at an instant that lies within the series.
func (s Series) at(instantNS int64) Usage {
	after := sort.Search(len(s.samples), func(i int) bool { return s.samples[i].AtNS > instantNS })
	usage := s.samples[after-1]
	if after < len(s.samples) {
		next := &s.samples[after]
		share := float64(instantNS-usage.AtNS) / float64(next.AtNS-usage.AtNS)
		for _, column := range columns {
			if !column.gauge {
				here := column.of(&usage)
				*here += int64(share * float64(*column.of(next)-*here))
			}
		}
	}
	usage.AtNS = instantNS
	return usage
}

// wireSeries is a Series as JSON.
type wireSeries struct {
	AtNS    []int64            `json:"at_ns"`
	Figures map[string][]int64 `json:"figures"`
	Problem string             `json:"problem,omitempty"`
}

// MarshalJSON writes, for each figure, the first value and the differences.
func (s Series) MarshalJSON() ([]byte, error) {
	instant := func(u *Usage) *int64 { return &u.AtNS }
	wire := wireSeries{AtNS: s.differences(instant), Figures: map[string][]int64{}, Problem: s.problem}
	for _, column := range columns {
		values := s.differences(column.of)
		if slices.ContainsFunc(values, func(value int64) bool { return value != 0 }) {
			wire.Figures[column.name] = values
		}
	}
	return json.Marshal(wire)
}

func (s Series) differences(of func(*Usage) *int64) []int64 {
	values := make([]int64, len(s.samples))
	previous := int64(0)
	for i := range s.samples {
		value := *of(&s.samples[i])
		values[i] = value - previous
		previous = value
	}
	return values
}

// UnmarshalJSON reads the output of MarshalJSON. It ignores unknown figures.
func (s *Series) UnmarshalJSON(data []byte) error {
	var wire wireSeries
	if err := json.Unmarshal(data, &wire); err != nil {
		return fmt.Errorf("read usage series: %w", err)
	}
	if len(wire.AtNS) > mostSamples {
		return fmt.Errorf("read usage series: %d readings: want at most %d", len(wire.AtNS), mostSamples)
	}
	read := Series{samples: make([]Usage, len(wire.AtNS)), problem: wire.Problem}
	read.accumulate(wire.AtNS, func(u *Usage) *int64 { return &u.AtNS })
	for i := 1; i < len(read.samples); i++ {
		if read.samples[i].AtNS <= read.samples[i-1].AtNS {
			return fmt.Errorf("read usage series: reading %d is not later than the one before", i)
		}
	}
	for _, column := range columns {
		values, found := wire.Figures[column.name]
		if !found {
			continue
		}
		if len(values) != len(read.samples) {
			return fmt.Errorf("read usage series: %d values of %s at %d instants", len(values), column.name, len(read.samples))
		}
		read.accumulate(values, column.of)
	}
	*s = read
	return nil
}

func (s *Series) accumulate(differences []int64, of func(*Usage) *int64) {
	sum := int64(0)
	for i, difference := range differences {
		sum += difference
		*of(&s.samples[i]) = sum
	}
}

// Shift adds this many nanoseconds to all instants, as for the clock of another machine.
func (s *Series) Shift(by int64) {
	for i := range s.samples {
		s.samples[i].AtNS += by
	}
}

// DefaultPeriod is fine enough to cut a window of two seconds to within a
// hundredth of its processor time. A reading costs 13 to 19 µs in a busy process
// and 80 µs, mostly of being woken, in an idle one: 0.1 to 0.4 % of a CPU.
const DefaultPeriod = 20 * time.Millisecond

// mostSamples limits a series, to 500 KiB. When it is full, every second reading is dropped and
// the period doubles, so that a life of any length is known to a thousandth of its length.
const mostSamples = 1024

// Sampler reads a process at a steady period.
type Sampler struct {
	source Source
	period time.Duration
	series Series
	ticks  ticker
}

// StartSampler takes readings, the first at once, until Stop or until the source fails.
func StartSampler(source Source, period time.Duration) *Sampler {
	s := &Sampler{source: source, period: period, series: Series{samples: make([]Usage, 0, mostSamples)}}
	s.take()
	s.ticks = tick(period, func() time.Duration {
		if len(s.series.samples) == mostSamples {
			s.thin()
		}
		s.take()
		return s.period
	})
	return s
}

// Stop takes a last reading and returns all of them. Call it once.
func (s *Sampler) Stop() Series {
	s.ticks.stop()
	s.take()
	return s.series
}

// take adds a reading, unless one failed. The last of a full series replaces the one before.
func (s *Sampler) take() {
	if s.series.problem != "" {
		return
	}
	usage, err := s.source()
	if err != nil {
		s.series.problem = err.Error()
		return
	}
	last := len(s.series.samples) - 1
	if last >= 0 && (last+1 == mostSamples || s.series.samples[last].AtNS >= usage.AtNS) {
		s.series.samples[last] = usage
		return
	}
	s.series.samples = append(s.series.samples, usage)
}

// thin keeps the first reading and every second one after it.
func (s *Sampler) thin() {
	samples := s.series.samples
	for i := range mostSamples / 2 {
		samples[i] = samples[2*i]
	}
	s.series.samples = samples[:mostSamples/2]
	s.period *= 2
}
