package fleet

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/run/crowd"
	"wirelab.dev/internal/run/worker"
)

// Whatever there is to tell, it is a kilobyte a second in the long run.
func TestAnAgentIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget()
		told, refused := 0, 0
		const seconds = 30
		for range seconds * 10 {
			for _, bytes := range []int{900, 120, 60} {
				if b.trySpend(bytes) {
					told += bytes
				} else {
					refused++
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if most := (seconds + 1) * maxBytesPerSecond; told > most || told < most*9/10 || refused == 0 {
			t.Errorf("%d bytes in %d s, %d times nothing; want at most %d, and not much less", told, seconds, refused, most)
		}
		time.Sleep(time.Hour)
		if !b.trySpend(maxBytesPerSecond) || b.trySpend(1) {
			t.Error("a budget that was not used for an hour is not one second's")
		}
		if b.isSilent() {
			t.Error("it is silent just after it told something")
		}
		time.Sleep(2 * maxSilence)
		if !b.isSilent() {
			t.Error("it is not silent long after it told something")
		}
	})
}

// What is told live comes back as it was, and the histogram of a second is within the budget.
func TestToldLive(t *testing.T) {
	times := latency.NewCoarseHistogram()
	for i := range int64(50_000) {
		times.Record(100_000+i*i%200_000, 1)
	}
	encoded, err := times.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]workerEvent{
		"interval":         {Interval: &worker.Interval{StartNS: 17, TookNS: 1e9, Ended: 50_000, Failed: 3, Histogram: encoded}},
		"an idle interval": {Interval: &worker.Interval{StartNS: 17, TookNS: 1e9}},
		"progress":         {Progress: &live.Progress{Warming: true, Settled: true, Done: 7}},
	} {
		message, err := encodeLive(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeWorkerEvent(message)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case want.Progress != nil && !reflect.DeepEqual(got.Progress, want.Progress),
			want.Interval != nil && *got.Interval != *want.Interval:
			t.Errorf("%s: %+v came back as %+v", name, want, got)
		}
		if len(message) > maxBytesPerSecond {
			t.Errorf("%s: %d bytes", name, len(message))
		}
	}
	if want := (workerEvent{Interval: &worker.Interval{Histogram: "%"}}); true {
		if _, err := encodeLive(want); err == nil {
			t.Error("a histogram that is none was encoded")
		}
	}
}

func FuzzTold(f *testing.F) {
	f.Add([]byte(`{"interval":{"start_ns":1}}` + "\n" + "\x00\x01"))
	f.Add([]byte(`{"result":{"client":{"begin_ns":1}},"intervals":[{}]}`))
	f.Add([]byte(`{"ended":{"machine":{"watched":[{}]}}}`))
	f.Fuzz(func(t *testing.T, message []byte) {
		got, err := decodeWorkerEvent(message)
		if err != nil {
			return
		}
		r := &remoteWorker{on: &leasedAgent{}, ready: make(chan struct{}), result: make(chan struct{}), ended: make(chan struct{}), onInterval: crowd.NewIntervalStream().Add}
		r.handleEvent(got) // whatever an agent tells, its controller goes on
	})
}
