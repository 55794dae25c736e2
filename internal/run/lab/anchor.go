package lab

import (
	"context"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

const (
	// anchorReadings is the number of readings before and after a run. They differ as runs do.
	anchorReadings = 2
	// anchorEvery is the time between readings during a run.
	anchorEvery = time.Minute
	// anchorWindow is the measured time of each cell in a reading.
	anchorWindow = 150 * time.Millisecond
)

// anchorCells returns the cells of the anchor. They must stay the same in every version, because
// runs of different versions are compared by their anchors.
func anchorCells() []scenario.PlannedCell {
	var cells []scenario.PlannedCell
	for _, clients := range record.AnchorClients {
		cells = append(cells, scenario.PlannedCell{Repeat: 1, Block: 1, Cell: scenario.Cell{
			Part: "anchor", Variant: scenario.Variant{Stack: "tcp"}, Workload: "echo",
			Size: scenario.Payload{Request: 64, Response: 64}, Clients: clients,
			Load:   scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(anchorWindow)},
			WarmUp: scenario.WarmUp{AtLeast: scenario.Duration(50 * time.Millisecond), AtMost: scenario.Duration(100 * time.Millisecond)},
			Slices: true,
		}})
	}
	return cells
}

// readAnchorIfOld measures the anchor before the first trial, and once if the last reading is old.
func (l *Lab) readAnchorIfOld(ctx context.Context, run *record.Run) {
	switch readings := run.Manifest.Anchor; {
	case len(readings) == 0:
		l.readAnchor(ctx, run, anchorReadings)
	case time.Since(readings[len(readings)-1].Started) > anchorEvery:
		l.readAnchor(ctx, run, 1)
	}
}

// ReadAnchor measures the anchor after the last trial of a run.
func (l *Lab) ReadAnchor(ctx context.Context, run *record.Run) {
	l.readAnchor(ctx, run, anchorReadings)
}

// readAnchor measures the anchor a number of times, in fresh processes, and keeps the readings in
// the run's manifest. A reading that fails is left out: the run is still good, and diff says that it
// lacks an anchor.
func (l *Lab) readAnchor(ctx context.Context, run *record.Run, times int) {
	if !l.Anchored || l.Fleet != nil || l.Remote.Ended() {
		return
	}
	alone := &Lab{Worker: l.Worker, Placement: l.Placement, Nice: l.Nice, Seed: l.Seed, Unwatched: true, drain: l.drain}
	plan := anchorCells()
	anchor := &execution{Lab: alone, plan: plan, order: ManifestOrder(plan), into: run}
	for range times {
		records, err := anchor.measureBlock(ctx, []int{0, 1})
		if err != nil {
			return
		}
		for _, r := range records {
			if reading, measured := newAnchorReading(r); measured {
				run.Manifest.Anchor = append(run.Manifest.Anchor, reading)
			}
		}
	}
}

// newAnchorReading returns the reading of a trial of the anchor. It reports false if the trial has
// no figures.
func newAnchorReading(r *record.Record) (reading record.AnchorReading, measured bool) {
	if r.Failure != "" || r.Service.Count == 0 || r.Requests == 0 {
		return record.AnchorReading{}, false
	}
	reading = record.AnchorReading{Started: r.Started, Clients: r.Cell.Clients, MeanNS: float64(r.Service.Sum) / float64(r.Service.Count)}
	client, known := r.Client.CPUNS()
	server, alsoKnown := r.Server.CPUNS()
	if known && alsoKnown {
		reading.CPUNS = float64(client+server) / float64(r.Requests)
	}
	return reading, true
}
