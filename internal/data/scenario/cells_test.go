package scenario

import "fmt"

// cells lists every cell once.
func (s *Scenario) cells() []Cell {
	var cells []Cell
	for _, p := range s.Parts {
		cells = append(cells, p.cells()...)
	}
	return cells
}

// key names a cell, once in its scenario.
func (c Cell) key() string {
	return fmt.Sprintf("%s/%s/%s/%v/c=%d", c.Part, c.Variant, c.Workload, c.Size, c.Clients)
}

// samples returns the number of requests that the whole plan measures. A closed loop that
// runs for a duration counts as 0: nobody knows its requests beforehand.
func (s *Scenario) samples() int64 {
	var samples int64
	for _, p := range s.Parts {
		for _, c := range p.cells() {
			samples += int64(p.Repeats) * c.requests()
		}
	}
	return samples
}

func (c Cell) requests() int64 {
	seconds := float64(c.Load.Duration) / 1e9
	switch c.Load.Model {
	case Open, Sustained:
		return int64(c.Load.Rate * seconds)
	case Ramp:
		return int64((c.Load.Rate + c.Load.To) / 2 * seconds)
	case Burst:
		return int64(c.Load.Requests)
	}
	if c.Load.Total > 0 {
		return int64(c.Load.Total)
	}
	return int64(c.Clients) * int64(c.Load.Requests)
}
