package lab

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

const ms = int64(1e6)

// watchedFor is a CPU that was watched for two seconds, with 500 wakings.
func watchedFor(cpu int, gaps ...probe.Gap) probe.SentinelResult {
	return probe.SentinelResult{CPU: cpu, FromNS: 0, ToNS: 2000 * ms, Wakings: 500, Gaps: gaps}
}

func gap(at, took int64) probe.Gap { return probe.Gap{AtNS: at * ms, TookNS: took * ms} }

func TestGapsAreCutToTheWindow(t *testing.T) {
	ends := func() *record.Record {
		return &record.Record{Client: record.Process{CPUs: []int{0}}, Server: record.Process{CPUs: []int{1, 2}}}
	}
	second := window{{500 * ms, 1500 * ms}}
	r := ends()
	applyGaps(r, []probe.SentinelResult{
		watchedFor(0, gap(100, 20), gap(800, 30), gap(1495, 20)), // the first before, the last half within
		watchedFor(1, gap(495, 20), gap(600, 3), gap(810, 40)),
		watchedFor(2),
	}, second)
	client := &record.Gaps{CPUs: 1, Wakings: 250, LongestNS: 30 * ms, Lengths: []record.GapLength{{Count: 1, SumNS: 5 * ms}, {Count: 1, SumNS: 30 * ms}}}
	server := &record.Gaps{CPUs: 2, Wakings: 500, LongestNS: 40 * ms, Lengths: []record.GapLength{{Count: 1, SumNS: 3 * ms}, {Count: 1, SumNS: 15 * ms}, {Count: 1, SumNS: 40 * ms}}}
	if !reflect.DeepEqual(r.Client.Gaps, client) || !reflect.DeepEqual(r.Server.Gaps, server) {
		t.Errorf("client %+v\nserver %+v", r.Client.Gaps, r.Server.Gaps)
	}

	for why, watched := range map[string][]probe.SentinelResult{
		"the sentinels reported nothing": nil,
		"reported nothing":               {watchedFor(1), watchedFor(2)},
		"watch CPU 0: refused":           {{CPU: 0, Problem: "watch CPU 0: refused"}, watchedFor(1), watchedFor(2)},
		"CPU 0 ended 500 ms before":      {{CPU: 0, ToNS: 1000 * ms, Wakings: 9}, watchedFor(1), watchedFor(2)},
		"CPU 0 started 400 ms after":     {{CPU: 0, FromNS: 900 * ms, ToNS: 2000 * ms, Wakings: 9}, watchedFor(1), watchedFor(2)},
	} {
		r := ends()
		if applyGaps(r, watched, second); r.Client.Gaps != nil {
			t.Errorf("%s: %+v", why, r.Client.Gaps)
		}
		if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], why) {
			t.Errorf("warnings %q, want one of %q", r.Warnings, why)
		}
	}
	r = ends()
	r.ClientProgram = "program 1.0"
	if applyGaps(r, []probe.SentinelResult{watchedFor(0), watchedFor(1), watchedFor(2)}, second); r.Client.Gaps != nil {
		t.Error("another program's own work was taken for gaps")
	}
}

// Each CPU is watched once, and what runs there for the trial is ours.
func TestTheWatchListKnowsOurProcesses(t *testing.T) {
	t.Parallel()
	at := host.Placement{Server: []int{1}, Client: []int{0, 1}}
	const server, client = 1 << 29, 1 << 28 // processes that there are not, and so have no children
	want := []probe.SentinelCPU{{CPU: 1, PIDs: []int{server, client}, CPUs: 1}, {CPU: 0, PIDs: []int{client}, CPUs: 2}}
	if got := watchList(at, []int{server}, []int{client}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// BenchmarkSentinels measures what it costs a trial to be watched: pairs of trials, with
// sentinels and without, and the median of their ratios of throughput.
func BenchmarkSentinels(b *testing.B) {
	s := oneCell(b, "tcp")
	s.Parts[0].Load = scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(time.Second)}
	l := newLab(b)
	var ratios []float64
	for pair := 0; b.Loop(); pair++ {
		var throughput [2]float64
		for i := range throughput {
			l.Unwatched = (pair+i)%2 == 0
			r := runOne(b, l, s)
			throughput[(pair+i)%2] = r.ThroughputPerSecond()
		}
		ratios = append(ratios, throughput[1]/throughput[0])
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "watched/unwatched")
	b.ReportMetric(ratios[len(ratios)*3/4]-ratios[len(ratios)/4], "quartiles-apart")
}
