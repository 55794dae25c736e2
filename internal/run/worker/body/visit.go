package body

import (
	"bytes"
	"context"
	"strings"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/journey"
	"wirelab.dev/internal/wire/service/reach"
)

// runVisit makes the first call to the spec's service, and prints how it went. A failed call is a
// result, and no error.
func runVisit(ctx context.Context, spec *task, events *eventPrinter) error {
	d, err := service.Parse(spec.Workload.Definition)
	if err != nil {
		return err
	}
	var notes bytes.Buffer
	call := reach.FirstCall{Definition: d, Seed: spec.Visit.Seed, Limit: time.Duration(spec.Visit.LimitNS), Notes: &notes, Whole: spec.Visit.Whole, Fixed: true}
	if call.Request, err = reach.FirstRequest(d, call.Seed); err != nil {
		return err
	}
	if d.Journey != nil {
		if call.Script, err = journey.Parse(d.Journey.Name, d.Journey.File); err != nil {
			return err
		}
	}
	if err := events.printReady(worker.Ready{Address: d.Address}); err != nil {
		return err
	}
	held := d.Holding != nil
	result := &worker.VisitResult{}
	if err := call.Try(ctx); err != nil {
		result.Failure, result.Class = err.Error(), string(failure.Of(err))
	}
	if notes.Len() > 0 {
		result.Notes = strings.Split(strings.TrimSuffix(notes.String(), "\n"), "\n")
	}
	result.Address, result.Events = d.Address, !held && d.Holding != nil
	return events.printEvent(worker.Event{Event: "result", Result: &worker.Result{Visit: result}})
}
