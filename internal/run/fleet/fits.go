package fleet

import (
	"fmt"
	"time"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/worker"
)

// Allowed differences between an order and its result: errors of clocks, and a busy machine.
const (
	maxInstantError = time.Second
	maxLengthError  = 0.01 // of the window
)

// checkFits returns an error if a result cannot be that of the worker's order: an earlier trial's, for
// example. now and the worker's orderedNS are on the controller's clock, as the result's instants are.
func (r *remoteWorker) checkFits(result *worker.Result, now int64) error {
	c := result.Client
	if (r.spec.Role == worker.ClientRole) != (c != nil) || (r.spec.Role == worker.VisitRole) != (result.Visit != nil) {
		return fmt.Errorf("%s: the result is not that of a %s", r.on.Name, r.spec.Role)
	}
	if c == nil {
		return nil
	}
	load := r.spec.Client.Load
	if early, late := c.BeginNS < r.orderedNS-int64(maxInstantError), c.EndNS > now+int64(maxInstantError); early || late {
		return fmt.Errorf("%s: the result is not that of this trial: its window lasted from %v to %v after the order, and the result came after %v",
			r.on.Name, time.Duration(c.BeginNS-r.orderedNS), time.Duration(c.EndNS-r.orderedNS), time.Duration(now-r.orderedNS))
	}
	if longest := float64(load.DurationNS)*(1+maxLengthError) + float64(maxInstantError); load.DurationNS > 0 && load.Model != scenario.Search && float64(c.LengthNS()) > longest {
		return fmt.Errorf("%s: the result has a window of %v: the order was %v", r.on.Name, time.Duration(c.LengthNS()), time.Duration(load.DurationNS))
	}
	if most := int64(r.spec.Client.Clients)*int64(load.RequestsPerClient) + int64(load.ExtraRequests); load.RequestsPerClient > 0 && c.Requests > most {
		return fmt.Errorf("%s: the result has %d requests: the order was %d", r.on.Name, c.Requests, most)
	}
	return r.checkSlices(c)
}

// checkSlices returns an error unless a result has the slices of the order, at its instants.
func (r *remoteWorker) checkSlices(c *worker.ClientResult) error {
	if len(c.Slices) != len(r.slices) {
		return fmt.Errorf("%s: the result has %d slices: the order was %d", r.on.Name, len(c.Slices), len(r.slices))
	}
	for i, s := range r.slices {
		begin := c.BeginNS + c.Slices[i].AtNS
		if begin != s.From || begin+c.Slices[i].TookNS != s.To && !c.EndedEarly {
			return fmt.Errorf("%s: slice %d of the result lasts from %d to %d ns: the order was from %d to %d", r.on.Name, i+1, begin, begin+c.Slices[i].TookNS, s.From, s.To)
		}
	}
	return nil
}
