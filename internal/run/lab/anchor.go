package lab

import (
	"context"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// anchorCell is the cell of the anchor. It must stay the same in every version, because runs of
// different versions are compared by their anchors.
var anchorCell = scenario.PlannedCell{Repeat: 1, Cell: scenario.Cell{
	Part: "anchor", Variant: scenario.Variant{Stack: "tcp"}, Workload: "echo",
	Size: scenario.Payload{Request: 64, Response: 64}, Clients: 16,
	Load:   scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(300 * time.Millisecond)},
	WarmUp: scenario.WarmUp{AtLeast: scenario.Duration(50 * time.Millisecond), AtMost: scenario.Duration(100 * time.Millisecond)},
}}

// AnchorTime returns the time for the anchor's readings in a run, or in its share that is done. The
// share took so long. Short runs need as many readings as longer ones.
func AnchorTime(done float64, took time.Duration) time.Duration {
	return max(time.Duration(done*float64(5*time.Second)), took*3/100)
}

// ReadAnchor measures the anchor as often as its time allows, given the share of the run that is
// done, and at least once. Each reading has fresh processes, and is kept in the run's manifest. If a
// reading fails, ReadAnchor returns: the run is still good, and diff says that it lacks an anchor.
func (l *Lab) ReadAnchor(ctx context.Context, run *record.Run, done float64) {
	if l.began.IsZero() {
		l.began = time.Now()
	}
	alone := &Lab{Worker: l.Worker, Placement: l.Placement, Nice: l.Nice, Seed: l.Seed, Unwatched: true, drain: l.drain}
	plan := []scenario.PlannedCell{anchorCell}
	anchor := &execution{Lab: alone, plan: plan, order: ManifestOrder(plan), into: run}
	for l.Anchored && l.Fleet == nil && !l.Remote.Ended() {
		if l.anchorTook > 0 && l.anchorTook >= AnchorTime(done, time.Since(l.began)) {
			return
		}
		started := time.Now()
		records, err := anchor.measureBlock(ctx, []int{0})
		if err != nil || !addReading(run, records[0]) {
			return
		}
		l.anchorTook += time.Since(started)
	}
}

// addReading adds the figures of a trial of the anchor to the manifest. It reports false if the
// trial has none.
func addReading(run *record.Run, r *record.Record) bool {
	if r.Failure != "" || r.Service.Count == 0 || r.Requests == 0 {
		return false
	}
	reading := record.AnchorReading{Started: r.Started, Clients: r.Cell.Clients, MeanNS: float64(r.Service.Sum) / float64(r.Service.Count)}
	client, known := r.Client.CPUNS()
	server, alsoKnown := r.Server.CPUNS()
	if known && alsoKnown {
		reading.CPUNS = float64(client+server) / float64(r.Requests)
	}
	run.Manifest.Anchor = append(run.Manifest.Anchor, reading)
	return true
}
