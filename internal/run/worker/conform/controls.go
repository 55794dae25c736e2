package conform

import (
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/run/worker"
)

// controlled starts a client of the load, whose window is open when it returns. What it
// says from then on is in said.
func (p Peer) controlled(t T, load worker.Load) (_ *worker.Process, said <-chan live.Progress) {
	t.Helper()
	spec := p.client(p.otherServer(t))
	load.DrainNS = int64(patience)
	spec.Client.Load = load
	client, progress := p.heard(t, spec)
	p.until(t, progress, "that its window is open", func(p live.Progress) bool { return !p.Warming && p.Done > 0 })
	return client, progress
}

// heard starts a client. What it says of how far it has come is in said.
func (p Peer) heard(t T, spec worker.Spec) (_ *worker.Process, said <-chan live.Progress) {
	t.Helper()
	progress := make(chan live.Progress, 1000) // more than any client prints in the time of a check
	client, err := worker.Start(worker.Launch{
		Name: "client", Command: p.Command, Spec: spec,
		OnProgress: func(p live.Progress) {
			select {
			case progress <- p:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Kill)
	return client, progress
}

// until waits for what a client must say at last.
func (p Peer) until(t T, said <-chan live.Progress, what string, is func(live.Progress) bool) live.Progress {
	t.Helper()
	ctx := p.context(t)
	for {
		select {
		case now := <-said:
			if is(now) {
				return now
			}
		case <-ctx.Done():
			t.Fatalf("the client did not say %s within %v", what, patience)
		}
	}
}

func (p Peer) tell(t T, client *worker.Process, control worker.Control) {
	t.Helper()
	if err := client.Tell(worker.Order{Control: control}); err != nil {
		t.Fatal(err)
	}
}

// endsEarly expects a window of an hour to end when it is told to, behind a control that
// nobody knows.
func (p Peer) endsEarly(t T) {
	client, _ := p.controlled(t, worker.Load{Model: "closed", DurationNS: int64(time.Hour)})
	p.tell(t, client, "no-such-control")
	p.tell(t, client, worker.EndControl)
	p.ended(t, client)
}

// ended expects the result of a load that was ended early.
func (p Peer) ended(t T, client *worker.Process) *worker.ClientResult {
	t.Helper()
	result, err := client.Result(p.context(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Stop(); err != nil {
		t.Fatalf("a client ends by itself after its result: %v", err)
	}
	if result.Client == nil {
		t.Fatal("the result has no part `client`")
	}
	if !result.Client.EndedEarly {
		t.Error("the window was told to end, and its result does not say `ended_early`")
	}
	checkResult(t, result.Client, 0)
	return result.Client
}

// pauses expects no call to begin in a pause, and others after it.
func (p Peer) pauses(t T) {
	client, said := p.controlled(t, worker.Load{Model: "closed", DurationNS: int64(time.Hour)})
	p.tell(t, client, worker.PauseControl)
	p.until(t, said, "that it is paused", func(p live.Progress) bool { return p.Paused })
	p.until(t, said, "it again", func(p live.Progress) bool { return p.Paused }) // calls in flight have ended
	before := p.until(t, said, "it again", func(p live.Progress) bool { return p.Paused })
	after := p.until(t, said, "it again", func(p live.Progress) bool { return p.Paused })
	if before.Done != after.Done {
		t.Errorf("in a pause %d calls ended", after.Done-before.Done)
	}
	p.tell(t, client, worker.ResumeControl)
	p.until(t, said, "that it goes on", func(p live.Progress) bool { return !p.Paused && p.Done > after.Done })
	p.tell(t, client, worker.EndControl)
	result := p.ended(t, client)
	if result.Pauses != 1 || result.PausedNS <= 0 || result.PausedNS >= result.EndNS-result.BeginNS {
		t.Errorf("pauses %d, of %v in a window of %v; want 1, of a part of it", result.Pauses, time.Duration(result.PausedNS), time.Duration(result.EndNS-result.BeginNS))
	}
}
