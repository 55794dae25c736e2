package body

import (
	"cmp"
	"encoding/json"
	"os"
	"runtime"
	"sync"

	"wirelab.dev/internal/run/worker"
)

// emitter prints each event as one whole line.
type emitter struct {
	guard   sync.Mutex
	encoder *json.Encoder
}

func (e *emitter) emit(event worker.Event) error {
	e.guard.Lock()
	defer e.guard.Unlock()
	return e.encoder.Encode(event)
}

func (e *emitter) ready(r worker.Ready) error {
	r.Contract, r.PID = worker.Contract, cmp.Or(r.PID, os.Getpid())
	if r.Runtime == "" { // otherwise another program serves or calls
		r.Runtime, r.GoMaxProcs = runtime.Version(), runtime.GOMAXPROCS(0)
	}
	return e.emit(worker.Event{Event: "ready", Ready: &r})
}
