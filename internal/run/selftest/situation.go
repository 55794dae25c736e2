// Package selftest disturbs real trials, and reports how the judge judged them. It answers two
// questions about the machine it runs on: which disturbances does wirelab notice there, and
// which undisturbed trials does it refuse?
//
//		situation ──> lie:  disturbance + trial ──> record ─┬─> noticed? by which check?
//		          └─> twin: its harmless form + trial ──> record ─┘   how far did the figure move?
//
//	 1. Each situation has a cell, a lie and a twin. The lie is a disturbance that makes
//	    the cell's figures false; the twin is the same disturbance without its effect.
//	 2. Examine runs both through a real lab, with real worker processes, while a Stage
//	    holds the disturbance up. The stage ends it when the trial ends, in whatever way.
//	 3. The verdict is read off the records' checks. The twin is also the reference: how
//	    far the lie moved the figure tells a harmless lie from one that passed.
//
// Disturbers are processes of their own (Act), so that their CPU time is not taken for wirelab's.
// The kernel kills them when wirelab ends, but for the one that then removes what the stage leaves.
//
// This package must not judge: it reads what the judge wrote, and never what was staged.
package selftest

import (
	"cmp"
	"time"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
)

// A Situation is one way in which a measurement can be false, and its harmless twin.
type Situation struct {
	Name string `json:"name"`
	Lie  string `json:"lie"`  // what is staged, in a sentence
	Twin string `json:"twin"` // its harmless form
	// Expect names the checks that may notice it, or the beginning of a warning that
	// does. Others do not count: a trial that was refused for another reason does not
	// show that the disturbance was noticed.
	Expect []string `json:"expect"`

	needs     []need
	cell      cell
	lie, twin act
}

// act stages a disturbance. Nil stages nothing.
type act func(*Stage) error

// A cell is one configuration to measure. Zero fields take defaults.
type cell struct {
	variant           string
	workload          string
	request, response int
	clients           int
	connection        scenario.ConnectionMode
	load              scenario.Load
	network           scenario.Network
	samples           bool
	cold              bool // without a warm-up
}

// window holds several periods of every periodic disturbance, and is short enough for the whole
// self-test to take minutes.
const window = 500 * time.Millisecond

// warmUp limits the time before the window.
var warmUp = scenario.WarmUp{AtLeast: scenario.Duration(200 * time.Millisecond), AtMost: scenario.Duration(600 * time.Millisecond)}

func (c cell) withDefaults() cell {
	c.variant, c.workload = cmp.Or(c.variant, "tcp"), cmp.Or(c.workload, "echo")
	if c.workload == "echo" && c.request == 0 {
		c.request, c.response = 64, 64
	}
	c.clients, c.load = cmp.Or(c.clients, 4), cmp.Or(c.load, closedFor(window))
	return c
}

// scenario returns the scenario of the cell's one trial.
func (c cell) scenario() (*scenario.Scenario, error) {
	c = c.withDefaults()
	variants, err := scenario.ParseVariants(c.variant)
	if err != nil {
		return nil, err
	}
	part := scenario.Part{
		Name: "selftest", Stacks: variants, Workload: c.workload, Clients: []int{c.clients}, Repeats: 1,
		Sizes:      []scenario.Payload{{Request: scenario.Size(c.request), Response: scenario.Size(c.response)}},
		Connection: scenario.Connection{Mode: c.connection}, Network: c.network,
		Load: c.load, WarmUp: warmUp, Samples: c.samples,
	}
	if c.cold {
		part.WarmUp = scenario.WarmUp{}
	}
	return &scenario.Scenario{Version: scenario.Version, Name: "selftest", Seed: 1, Parts: []scenario.Part{part}}, nil
}

func closedFor(d time.Duration) scenario.Load {
	return scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(d)}
}

func constantRate(perSecond float64, d time.Duration) scenario.Load {
	return scenario.Load{Model: scenario.Open, Rate: perSecond, Arrivals: scenario.Constant, Duration: scenario.Duration(d)}
}

// A machine holds what a situation may need.
type machine struct {
	placement host.Placement
	// wide allows disturbances of all programs of the machine.
	wide bool
}

// A need returns the reason why a situation cannot be staged here, or "".
type need func(machine) string
