package body

import (
	"bufio"
	"encoding/json"
	"errors"

	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
)

// maxControlBytes bounds a line behind the spec. No known control is longer.
const maxControlBytes = 4 << 10

// parseControl reads a line behind the spec. It returns the zero value for a control that the
// worker does not know, and ignores.
func parseControl(line []byte) worker.Order {
	var o worker.Order
	if err := json.Unmarshal(line, &o); err != nil {
		return worker.Order{}
	}
	switch o.Control {
	case worker.EndControl, worker.PauseControl, worker.ResumeControl, worker.GoControl, worker.OpenControl:
		return o
	}
	return worker.Order{}
}

// readControls reads the lines behind the spec, until the input ends.
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

func obey(o worker.Order, controls *load.Controls) {
	switch o.Control {
	case worker.EndControl:
		controls.End()
	case worker.PauseControl:
		controls.Pause()
	case worker.ResumeControl:
		controls.Resume()
	case worker.GoControl:
		controls.Go(o.AtNS)
	case worker.OpenControl:
		controls.Open(o.AtNS)
	}
}
