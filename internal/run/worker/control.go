package worker

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"wirelab.dev/internal/run/load"
)

// Control is what a client is told while it runs, a line of its input behind the spec:
// {"control":"end"}.
type Control string

// The controls.
const (
	// EndControl closes the window at once; calls that began in it are waited for.
	EndControl Control = "end"
	// PauseControl keeps callers from sending until ResumeControl.
	PauseControl  Control = "pause"
	ResumeControl Control = "resume"
	// GoControl has a client of a group send its first call at an instant, and OpenControl
	// has it open the window at one. Both instants are on the clock of the client's machine.
	GoControl   Control = "go"
	OpenControl Control = "open"
)

// Order is a control with its instant, where it has one.
type Order struct {
	Control Control `json:"control"`
	AtNS    int64   `json:"at_ns,omitempty"`
}

// maxControlBytes bounds a line behind the spec. A longer one is none that is known.
const maxControlBytes = 4 << 10

// parseControl reads a line behind the spec; the zero value is what the worker does not know,
// and ignores.
func parseControl(line []byte) Order {
	var o Order
	if err := json.Unmarshal(line, &o); err != nil {
		return Order{}
	}
	switch o.Control {
	case EndControl, PauseControl, ResumeControl, GoControl, OpenControl:
		return o
	}
	return Order{}
}

// readControls reads what comes behind the spec, until the input ends.
func readControls(input *bufio.Reader, controls *load.Controls) {
	lines := bufio.NewReaderSize(input, maxControlBytes)
	for {
		line, err := lines.ReadSlice('\n')
		tooLong := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		if !tooLong {
			obey(parseControl(line), controls)
		}
		if err != nil {
			return
		}
	}
}

func obey(o Order, controls *load.Controls) {
	switch o.Control {
	case EndControl:
		controls.End()
	case PauseControl:
		controls.Pause()
	case ResumeControl:
		controls.Resume()
	case GoControl:
		controls.Go(o.AtNS)
	case OpenControl:
		controls.Open(o.AtNS)
	}
}

// Tell tells a client what to do from now on. One that does not know the control ignores it.
func (p *Process) Tell(o Order) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	p.telling.Lock()
	defer p.telling.Unlock()
	if _, err := p.input.Write(append(line, '\n')); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		return fmt.Errorf("%s: tell it %q: %w", p.name, o.Control, err)
	}
	return nil
}
