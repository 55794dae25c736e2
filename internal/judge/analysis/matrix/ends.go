package matrix

import (
	"wirelab.dev/internal/data/record"
)

// An End holds what one end cost over the window, besides its CPU time per request. Figures
// are null if they were not measured; of these, peak_bytes alone has an interval.
type End struct {
	Share      *Figure `json:"cpu_share" csv:"cpu_share" label:"Share of CPU" interval:"-"`  // of the CPU time of both ends
	Busy       *Figure `json:"busy" csv:"busy_share" label:"Busy" unit:"share" interval:"-"` // share of the CPUs it was given
	Collector  *Figure `json:"gc_share" csv:"gc_share" label:"Collector" interval:"-"`       // of its own CPU time, that its garbage collector took
	Cores      *Figure `json:"cores" interval:"-"`                                           // of them in use: CPU time by time
	RSS        *Figure `json:"rss_bytes" csv:"rss_bytes" label:"Memory" interval:"-"`        // at the window's end
	Peak       *Figure `json:"peak_bytes" csv:"peak_bytes" label:"At its peak"`              // the most in the window
	Own        *Figure `json:"own_bytes" csv:"own_bytes" label:"Its own" interval:"-"`       // the most without the pages of files, which all that run the program share
	Heap       *Figure `json:"heap_bytes" csv:"heap_bytes" label:"Heap" interval:"-"`
	Threads    *Figure `json:"threads" csv:"threads" label:"Threads" interval:"-"` // the most at once, as the next two
	Sockets    *Figure `json:"sockets" csv:"sockets" label:"Sockets" interval:"-"`
	Goroutines *Figure `json:"goroutines" csv:"goroutines" label:"Goroutines" interval:"-"`
}

// endOf returns the cost of one end. of picks it, and other the end that it shares the work
// with.
func endOf(trials []Trial, of, other func(Trial) record.Process) End {
	count := func(field func(record.Process) *int64) *Figure {
		return Known(trials, func(t Trial) float64 { return Number(field(of(t))) })
	}
	return End{
		Share:      Known(trials, func(t Trial) float64 { return cpuShare(of(t), other(t)) }),
		Busy:       Known(trials, func(t Trial) float64 { return Number(of(t).Busy) }),
		Collector:  Known(trials, func(t Trial) float64 { return collectorShare(of(t)) }),
		Cores:      Known(trials, func(t Trial) float64 { return coresInUse(t, of(t)) }),
		RSS:        count(func(p record.Process) *int64 { return p.RSSBytes }),
		Peak:       count(func(p record.Process) *int64 { return p.PeakBytes }),
		Heap:       count(func(p record.Process) *int64 { return p.HeapBytes }),
		Own:        count(func(p record.Process) *int64 { return p.OwnBytes }),
		Threads:    count(func(p record.Process) *int64 { return p.Threads }),
		Sockets:    count(func(p record.Process) *int64 { return p.Sockets }),
		Goroutines: count(func(p record.Process) *int64 { return p.Goroutines }),
	}
}

// drainOf returns how long a burst took until its last answer, in microseconds: its window
// ends with that. It returns nil for other loads.
func drainOf(cell record.Cell, trials []Trial) *Figure {
	if cell.Load.Burst == 0 {
		return nil
	}
	return new(Over(trials, func(t Trial) float64 { return float64(t.WindowNS) / 1e3 }))
}
