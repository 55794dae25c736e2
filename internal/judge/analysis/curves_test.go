package analysis

import (
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/curves"
)

// saturating is a stack that answers in 50 µs until 50 clients keep it busy.
func saturating(noise float64, repeats int, clients ...int) synthetic {
	s := synthetic{seed: 7, noise: noise, repeats: repeats}
	for _, n := range clients {
		tail := 1.5
		if n > 50 {
			tail = 1.5 * float64(n) / 50
		}
		s.truths = append(s.truths, truth{
			variant: "tcp", bytes: 64, clients: n, tail: tail,
			mean: 50 * time.Microsecond * time.Duration(max(n, 50)) / 50,
		})
	}
	return s
}

func kneeBy(t *testing.T, s *Summary, by string) curves.Knee {
	t.Helper()
	for _, k := range s.Knees {
		if k.By == by {
			return k
		}
	}
	t.Fatalf("no word on a knee by %s", by)
	return curves.Knee{}
}

func TestKneesAreFound(t *testing.T) {
	s := saturating(0.03, 3, 1, 10, 25, 50, 100, 200, 400, 800).summarize(t)
	if k := kneeBy(t, s, curves.KneeOfThroughput); !k.Found || k.Clients.Value < 25 || k.Clients.Value > 100 || k.Clients.Interval == nil {
		t.Errorf("throughput stops at 50 clients, and the knee is %+v", k)
	}
	if k := kneeBy(t, s, curves.KneeOfTail); !k.Found || k.Clients.Value < 25 || k.Clients.Value > 100 {
		t.Errorf("the tail grows from 50 clients on, and the knee is %+v", k)
	}
	once := saturating(0.03, 1, 1, 10, 25, 50, 100, 200).summarize(t)
	if k := kneeBy(t, once, curves.KneeOfThroughput); k.Found || !strings.Contains(k.Reason, "3 valid trials") {
		t.Errorf("one trial gives %+v", k)
	}
}

// A concurrency with too few valid trials is left out. The others show the knee, as
// long as there are enough of them.
func TestASpoiledConcurrencyDoesNotCount(t *testing.T) {
	spoiled := func(clients ...int) *Summary {
		records := saturating(0.03, 3, clients...).records(t)
		for _, r := range records {
			if r.Cell.Clients == 400 && r.Repeat == 1 {
				r.Checks = []record.Check{{Name: "errors", Level: record.Invalid, Detail: "half of the requests failed"}}
			}
		}
		return summarize(t, records)
	}
	for _, by := range []string{curves.KneeOfThroughput, curves.KneeOfTail} {
		k := kneeBy(t, spoiled(1, 10, 25, 50, 100, 200, 400, 800), by)
		if !k.Found || k.Clients.Value < 25 || k.Clients.Value > 100 || k.Points != 7 {
			t.Errorf("by %s seven of eight concurrencies give %+v", by, k)
		}
		k = kneeBy(t, spoiled(10, 25, 50, 100, 400), by)
		if want := "a knee needs 5 numbers of clients with 3 valid trials each; the run has 4"; k.Found || k.Points != 4 || k.Reason != want {
			t.Errorf("by %s four of five concurrencies give %+v, want the reason %q", by, k, want)
		}
	}
}

func TestKneesAreRefused(t *testing.T) {
	for _, c := range []struct {
		clients []int
		by      string
		reason  string
	}{
		{[]int{1, 10, 50, 100}, curves.KneeOfThroughput, "5 numbers of clients"},
		{[]int{10, 20, 30, 40, 50}, curves.KneeOfThroughput, "still grows at 50 clients"},
		{[]int{50, 100, 150, 200, 250}, curves.KneeOfThroughput, "does not grow"},
		{[]int{1, 10, 20, 30, 40, 50}, curves.KneeOfTail, "does not grow"},
	} {
		k := kneeBy(t, saturating(0.005, 3, c.clients...).summarize(t), c.by)
		if k.Found || !strings.Contains(k.Reason, c.reason) {
			t.Errorf("%v by %s: %+v, want a reason with %q", c.clients, c.by, k, c.reason)
		}
	}
}

// crossing is tcp, which costs by the byte, and grpc, which costs by the call:
// they take equal time at 2 KiB.
func crossing(noise float64, repeats int, sizes ...int) synthetic {
	s := synthetic{seed: 5, noise: noise, repeats: repeats}
	for _, size := range sizes {
		s.truths = append(s.truths,
			truth{variant: "grpc", bytes: size, clients: 1, mean: 90*time.Microsecond + time.Duration(size)*5*time.Nanosecond},
			truth{variant: "tcp", bytes: size, clients: 1, mean: 49*time.Microsecond + time.Duration(size)*25*time.Nanosecond})
	}
	return s
}

func TestACrossoverIsFound(t *testing.T) {
	s := crossing(0.02, 5, 256, 512, 1024, 4096, 8192, 16384).summarize(t)
	if len(s.Crossovers) != 1 {
		t.Fatalf("%d crossovers: %+v", len(s.Crossovers), s.Crossovers)
	}
	c := s.Crossovers[0]
	if c.A != "tcp" || c.B != "grpc" || c.Kind != "gradual" && c.Kind != "sharp" {
		t.Errorf("%+v", c)
	}
	if c.SizeBefore != 1024 || c.SizeAfter != 4096 || c.Before >= 1 || c.After <= 1 {
		t.Errorf("between %d and %d, %v to %v", c.SizeBefore, c.SizeAfter, c.Before, c.After)
	}
	within(t, "crossover", c.Bytes.Value, 2048, 0.15)
	if c.Bytes.Interval.Low > 2048 || c.Bytes.Interval.High < 2048 {
		t.Errorf("the interval %v does not hold 2048", *c.Bytes.Interval)
	}
}

func TestWhatCannotCrossDoesNot(t *testing.T) {
	for name, s := range map[string]synthetic{
		"three sizes": crossing(0.02, 5, 512, 1024, 16384),
		"two trials":  crossing(0.02, 2, 256, 512, 1024, 4096, 8192),
		"one side":    crossing(0.02, 5, 64, 128, 256, 512, 1024),
	} {
		if found := s.summarize(t).Crossovers; len(found) != 0 {
			t.Errorf("%s: %+v", name, found)
		}
	}
	noisy := crossing(0.5, 3, 256, 512, 1024, 4096, 8192).summarize(t)
	for _, c := range noisy.Crossovers {
		if c.Kind != "indistinct" {
			t.Errorf("noise that covers it all gives %+v", c)
		}
	}
}

// A limit that only moves the wait to before the call: the study's figure falls
// and the caller's does not.
func TestALimitIsCountedBothWays(t *testing.T) {
	s := synthetic{seed: 3, noise: 0.01, repeats: 3, truths: []truth{
		{variant: "tcp:buffers=pooled", bytes: 65536, clients: 500, mean: 50 * time.Millisecond, tail: 40},
		{variant: "tcp:buffers=pooled,inflight=50", bytes: 65536, clients: 500, mean: 5 * time.Millisecond, wait: 45 * time.Millisecond, tail: 2},
		{variant: "tcp", bytes: 65536, clients: 500, mean: 60 * time.Millisecond},
		{variant: "rest:inflight=50", bytes: 65536, clients: 500, mean: 60 * time.Millisecond},
	}}
	limits := s.summarize(t).Limits
	if len(limits) != 1 {
		t.Fatalf("%d effects of one limit that has its like without: %+v", len(limits), limits)
	}
	l := limits[0]
	if l.Without != "tcp:buffers=pooled" || l.With != "tcp:buffers=pooled,inflight=50" || l.Limit != 50 || l.Clients != 500 {
		t.Errorf("%+v", l)
	}
	within(t, "service time", l.MeanServiceRatio.Value, 0.1, 0.03)
	within(t, "response time", l.MeanResponseRatio.Value, 1, 0.03)
	within(t, "throughput", l.ThroughputRatio.Value, 1, 0.03)
	within(t, "tail without", l.TailWithout, 40, 0.01)
	within(t, "tail with, as the study counts", l.TailWithService, 2, 0.01)
	within(t, "tail with, as callers see it", l.TailWithResponse, 2, 0.01)
	if l.MeanResponseRatio.Interval == nil {
		t.Error("three pairs give no interval")
	}
}
