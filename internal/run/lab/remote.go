package lab

import (
	"sync"

	"wirelab.dev/internal/run/worker"
)

// Remote controls a run while it goes on. Its methods may be called at any time, from any
// goroutine, and tell the client of the running trial, which obeys in some milliseconds.
// Clients that know no controls go on as they would.
type Remote struct {
	guard  sync.Mutex // of what follows
	client worker.End
	ended  bool
	paused bool
}

// End ends the running trial, whose window is closed at once, and the run with it: Lab.Run
// returns nil when the trial's calls have ended and it is recorded. Of a trial whose window
// was not open yet, and of the rest of the plan, nothing is measured.
func (r *Remote) End() { r.tell(func() worker.Control { r.ended = true; return worker.EndControl }) }

// Pause keeps the clients from sending until Resume. It holds for the trials that follow, too.
func (r *Remote) Pause() {
	r.tell(func() worker.Control { r.paused = true; return worker.PauseControl })
}

// Resume lets the clients send again.
func (r *Remote) Resume() {
	r.tell(func() worker.Control { r.paused = false; return worker.ResumeControl })
}

// Ended reports whether the run was told to end.
func (r *Remote) Ended() bool {
	if r == nil {
		return false
	}
	r.guard.Lock()
	defer r.guard.Unlock()
	return r.ended
}

func (r *Remote) tell(change func() worker.Control) {
	r.guard.Lock()
	defer r.guard.Unlock()
	control := change()
	if r.client != nil {
		_ = r.client.Tell(worker.Order{Control: control}) // a client that has ended needs to be told nothing
	}
}

// attach makes client the receiver of the controls, and sends it the ones that it missed. With nil,
// no client receives any.
func (r *Remote) attach(client worker.End) {
	if r == nil {
		return
	}
	r.guard.Lock()
	defer r.guard.Unlock()
	r.client = client
	if client == nil {
		return
	}
	if r.paused {
		_ = client.Tell(worker.Order{Control: worker.PauseControl})
	}
	if r.ended {
		_ = client.Tell(worker.Order{Control: worker.EndControl})
	}
}
