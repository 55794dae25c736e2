package life

import (
	"fmt"

	"wirelab.dev/internal/machine/probe"
)

// Coarse measures three stages of a call from the notes of the processes themselves. It works on
// every machine, and costs nothing.
type Coarse struct{ coverage probe.Coverage }

// startCoarse returns a Coarse; why is the reason for measuring no more stages.
func startCoarse(why error) *Coarse {
	return &Coarse{probe.Coverage{
		Method:  "the processes' own notes",
		Missing: []string{fmt.Sprintf("the stages outside of the handler: %v", why)},
	}}
}

// Coverage returns how it works.
func (c *Coarse) Coverage() probe.Coverage { return c.coverage }

// Process does nothing: the processes know what to note.
func (*Coarse) Process(probe.End, int) error { return nil }

// Stop returns the stages of the calls.
func (c *Coarse) Stop(m probe.Measured) (findings probe.Findings, _ error) {
	findings.Life = tellCoarsely(m.Calls, m.Handled)
	findings.Life.Method, findings.Life.Missing = c.coverage.Method, c.coverage.Missing
	if len(m.Calls) > 0 && len(m.Handled) == 0 {
		findings.Life.Missing = append(findings.Life.Missing, noHandlers)
	}
	return findings, nil
}

// noHandlers is the reason if no call can be divided into stages.
const noHandlers = "every call: the server notes no handlers; wirelab's own workers do"
