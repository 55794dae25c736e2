package search

import (
	"context"

	"wirelab.dev/internal/run/load"
)

// A Client measures steps with the load of this process.
type Client struct {
	// Plan is the load of a step, without its duration, rate and warm-up.
	Plan load.Plan
	// OnKept, if not nil, is called when the step that has just ended is the best so far.
	OnKept func()

	last, best *load.Result
}

var _ Measurer = (*Client)(nil)

// Measure runs one step. The measurement belongs to the client.
func (c *Client) Measure(ctx context.Context, step load.Step) (*Measured, error) {
	r, err := c.Run(ctx, step)
	if err != nil {
		return nil, err
	}
	return &Measured{
		Measurement: &r.Measurement, Failures: r.Failures, WindowNS: r.End - r.Begin,
		Response: r.ResponseTimes(), Clients: []ClientDelay{{Late: r.Late}},
	}, nil
}

// Run runs one step, as Measure does. The measurement belongs to the client.
func (c *Client) Run(ctx context.Context, step load.Step) (*load.Result, error) {
	c.closeLast()
	r, err := load.Run(ctx, step.Of(c.Plan))
	if err != nil {
		return nil, err
	}
	if r.EndedEarly {
		r.Close()
		return nil, load.ErrNothingMeasured
	}
	c.last = r
	return r, nil
}

// Keep keeps the measurement of the latest step, if there is one.
func (c *Client) Keep() {
	if c.last == nil {
		return
	}
	if c.best != nil {
		c.best.Close()
	}
	c.best, c.last = c.last, nil
	if c.OnKept != nil {
		c.OnKept()
	}
}

// Best returns the measurement that was kept last, or nil. It frees the memory of the latest step.
// The caller must call the measurement's Close.
func (c *Client) Best() *load.Result {
	c.closeLast()
	return c.best
}

func (c *Client) closeLast() {
	if c.last != nil {
		c.last.Close()
	}
	c.last = nil
}

// Search searches with the client. It returns the measurement of the highest rate that met the goal; its
// Search lists the tries.
func (c *Client) Search(ctx context.Context, goal Goal) (*load.Result, error) {
	found, endedEarly, err := Find(ctx, goal, c.Plan.Duration, c)
	best := c.Best()
	switch {
	case err == nil:
		best.Search, best.EndedEarly = found, endedEarly
		return best, nil
	case best != nil:
		best.Close()
	}
	return nil, err
}
