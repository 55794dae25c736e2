package life

import (
	"fmt"

	"wirelab.dev/internal/machine/probe"
)

// Coarse tells three stages of a call, from what the processes note themselves. It works on
// every machine, and costs nothing.
type Coarse struct{ ability probe.Ability }

// startCoarse says why there is no more to be told.
func startCoarse(why error) *Coarse {
	return &Coarse{probe.Ability{
		Method:  "the processes' own notes",
		Missing: []string{fmt.Sprintf("the stages outside of the handler: %v", why)},
	}}
}

// Ability is how it tells.
func (c *Coarse) Ability() probe.Ability { return c.ability }

// Process does nothing: the processes know what to note.
func (*Coarse) Process(probe.End, int) error { return nil }

// Stop tells the calls' stages.
func (c *Coarse) Stop(m probe.Measured) (sight probe.Sight, _ error) {
	sight.Life = tellCoarsely(m.Calls, m.Handled)
	sight.Life.Method, sight.Life.Missing = c.ability.Method, c.ability.Missing
	if len(m.Calls) > 0 && len(m.Handled) == 0 {
		sight.Life.Missing = append(sight.Life.Missing, noHandlers)
	}
	return sight, nil
}

// noHandlers is why no call can be told.
const noHandlers = "every call: the server notes no handlers; wirelab's own workers do"
