package conform

import (
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/run/worker"
)

// The clients under test are the last of a group of twice as many.
const group = 2 * clients

// joined starts a client of a group, which is ready when it returns.
func (p Peer) joined(t T, load worker.Load) (*worker.Process, <-chan live.Progress) {
	t.Helper()
	spec := p.client(p.otherServer(t))
	load.DrainNS = int64(patience)
	spec.Client.Load, spec.Client.Group = load, &worker.Group{First: clients, Of: group}
	client, said := p.heard(t, spec)
	if _, err := client.Ready(p.context(t)); err != nil {
		t.Fatal(err)
	}
	return client, said
}

// cue gives a client a control with an instant.
func (p Peer) cue(t T, client *worker.Process, control worker.Control, at int64) {
	t.Helper()
	if err := client.Tell(worker.Order{Control: control, AtNS: at}); err != nil {
		t.Fatal(err)
	}
}

// joins expects a client to call nobody before it is told to go, to warm up until it is told to
// open its window, and to measure its part of the group's load.
func (p Peer) joins(load worker.Load) func(T) {
	return func(t T) {
		load.WarmUpAtLeastNS, load.WarmUpAtMostNS = int64(20*time.Millisecond), int64(50*time.Millisecond)
		client, said := p.joined(t, load)
		p.until(t, said, "how far it is, before it may go", func(live.Progress) bool { return true })
		if now := p.until(t, said, "it again", func(live.Progress) bool { return true }); now.Done > 0 || now.Settled {
			t.Errorf("before the control to go, it has made %d calls; that it is settled: %v", now.Done, now.Settled)
		}
		began := clock.Now()
		p.cue(t, client, worker.GoControl, began)
		settled := p.until(t, said, "that it is settled", func(p live.Progress) bool { return p.Settled })
		if !settled.Warming {
			t.Error("before the control to open its window, it does not say that it warms up")
		}
		more := p.until(t, said, "that it goes on warming up", func(p live.Progress) bool { return p.Done > settled.Done })
		if !more.Settled || !more.Warming {
			t.Error("it was settled, and is no longer, although nobody told it to open its window")
		}
		opens := clock.Now() + int64(100*time.Millisecond)
		p.cue(t, client, worker.OpenControl, opens)
		result := p.resultOf(t, client)
		if result.BeginNS < opens {
			t.Errorf("its window opened %v before it was to", time.Duration(opens-result.BeginNS))
		}
		if load.RequestsPerClient > 0 {
			own := int64(clients*load.RequestsPerClient + max(0, load.ExtraRequests-clients))
			checkResult(t, result, own)
			return
		}
		checkResult(t, result, 0)
		wantPart(t, load, result, result.BeginNS-began)
	}
}

// wantPart expects the arrivals of a constant rate that are the own ones, in a window that
// opened so long after the first arrival.
func wantPart(t T, load worker.Load, result *worker.ClientResult, after int64) {
	t.Helper()
	want := int64(0)
	for n := int64(0); ; n++ {
		due := int64(float64(n) * 1e9 / load.RatePerSecond)
		if due >= after+load.DurationNS {
			break
		}
		if due >= after && n%group >= clients {
			want++
		}
	}
	if result.Pacing == nil || result.Pacing.Scheduled != want {
		t.Errorf("its pacing is %+v, and its clients' part of the schedule has %d arrivals in its window", result.Pacing, want)
	}
}

// joinsCold expects the window to open at the instant of go.
func (p Peer) joinsCold(t T) {
	client, _ := p.joined(t, worker.Load{Model: "closed", RequestsPerClient: requests})
	began := clock.Now() + int64(100*time.Millisecond)
	p.cue(t, client, worker.GoControl, began)
	result := p.resultOf(t, client)
	checkResult(t, result, clients*requests)
	if result.BeginNS < began {
		t.Errorf("its window opened %v before it was to go", time.Duration(began-result.BeginNS))
	}
}
