package probe

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/base/clock"
)

// steady is a process that uses half a CPU, faults once a microsecond, and has
// as many goroutines as milliseconds have passed.
func steady(start int64) Source {
	return func() (Usage, error) {
		now := clock.Now()
		age := now - start
		return Usage{
			AtNS: now, UserNS: age / 2, MinorFaults: age / 1000,
			Go: GoUsage{Goroutines: age / 1_000_000},
		}, nil
	}
}

func TestBetweenInterpolates(t *testing.T) {
	series := Series{samples: []Usage{
		{AtNS: 1000, UserNS: 0, MajorFaults: 5, MaxRSSBytes: 1},
		{AtNS: 2000, UserNS: 500, MajorFaults: 5, MaxRSSBytes: 2},
		{AtNS: 4000, UserNS: 2500, MajorFaults: 9, MaxRSSBytes: 3},
	}}
	for _, test := range []struct {
		start, end int64
		want       Usage
	}{
		{1000, 4000, Usage{AtNS: 4000, UserNS: 2500, MajorFaults: 4, MaxRSSBytes: 3}},
		{1500, 3000, Usage{AtNS: 3000, UserNS: 1500 - 250, MajorFaults: 2, MaxRSSBytes: 2}},
		{2000, 2000, Usage{AtNS: 2000, MaxRSSBytes: 2}},
		{2500, 3500, Usage{AtNS: 3500, UserNS: 1000, MajorFaults: 2, MaxRSSBytes: 2}},
	} {
		got, err := series.Between(test.start, test.end)
		if err != nil || got.Usage != test.want {
			t.Errorf("Between(%d, %d) = %+v, %v; want %+v", test.start, test.end, got, err, test.want)
		}
	}
}

func TestBetweenKeepsTheMost(t *testing.T) {
	series := Series{samples: []Usage{
		{AtNS: 1000, Threads: 90, Sockets: 9, RSSBytes: 40, MaxRSSBytes: 70},
		{AtNS: 2000, Threads: 10, Sockets: 1, RSSBytes: 60, MaxRSSBytes: 70},
		{AtNS: 3000, Threads: 30, Sockets: 3, RSSBytes: 50, MaxRSSBytes: 70, Go: GoUsage{Goroutines: 7, HeapLiveBytes: 8}},
		{AtNS: 4000, Threads: 20, Sockets: 2, RSSBytes: 55, MaxRSSBytes: 80},
		{AtNS: 5000, Threads: 80, Sockets: 8, RSSBytes: 90, MaxRSSBytes: 95},
	}}
	for _, test := range []struct {
		name       string
		start, end int64
		want       Gauges
	}{
		{"the greatest reading", 2000, 3500, Gauges{RSSBytes: 60, Threads: 30, Sockets: 3, Goroutines: 7, HeapLiveBytes: 8}},
		{"what was held when it opened", 1500, 1700, Gauges{RSSBytes: 40, Threads: 90, Sockets: 9}},
		{"a peak between two readings", 2000, 4000, Gauges{RSSBytes: 80, Threads: 30, Sockets: 3, Goroutines: 7, HeapLiveBytes: 8}},
	} {
		if got, err := series.Between(test.start, test.end); err != nil || got.Most != test.want {
			t.Errorf("%s: %+v, %v; want %+v", test.name, got.Most, err, test.want)
		}
	}
}

func TestBetweenRefuses(t *testing.T) {
	series := Series{samples: []Usage{{AtNS: 1000}, {AtNS: 2000}}, problem: "the process ended"}
	for _, window := range [][2]int64{{999, 1500}, {1500, 2001}, {1800, 1200}} {
		if usage, err := series.Between(window[0], window[1]); err == nil {
			t.Errorf("Between(%v) = %+v, want an error", window, usage)
		}
	}
	if _, err := series.Between(1500, 3000); !strings.Contains(err.Error(), "the process ended") {
		t.Errorf("error %q does not say why readings end", err)
	}
	gone := StartSampler(func() (Usage, error) {
		_, err := os.Open("/proc/0/stat") // no process has this number
		return Usage{AtNS: 1}, err
	}, time.Hour)
	ended := gone.Stop()
	ended.samples = series.samples
	if _, err := ended.Between(1500, 3000); err == nil || err.Error() != "it ended or was restarted meanwhile" {
		t.Errorf("a process that ended: %v", err)
	}
	if usage, err := (Series{}).Between(0, 0); err == nil {
		t.Errorf("no readings, yet %+v", usage)
	}
}

func TestSamplerCoversItsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := clock.Now()
		sampler := StartSampler(steady(start), 10*time.Millisecond)
		time.Sleep(1005 * time.Millisecond)
		series := sampler.Stop()
		// At 0, 10, … 1000 ms, and at the end.
		if got := len(series.samples); got != 102 {
			t.Errorf("%d readings, want 102", got)
		}
		usage, err := series.Between(start+123_456_789, start+1_005_000_000)
		if err != nil {
			t.Fatal(err)
		}
		if want := time.Duration(1_005_000_000-123_456_789) / 2; (usage.CPU() - want).Abs() > time.Microsecond {
			t.Errorf("CPU %v, want %v", usage.CPU(), want)
		}
		if usage.Go.Goroutines != 1005 {
			t.Errorf("%d goroutines at the end, want 1005", usage.Go.Goroutines)
		}
	})
}

// While processes take turns, readings are rare, except at the edges of the span.
func TestSamplerSparesTheTurnsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := clock.Now()
		turns := Span{BeginNS: start + 95e6, EndNS: start + 1095e6}
		known := time.After(50 * time.Millisecond)
		span := func() Span {
			select {
			case <-known:
				known = nil
			default:
			}
			if known != nil {
				return Span{}
			}
			return turns
		}
		sampler := StartSamplerWithTurns(steady(start), 10*time.Millisecond, span)
		time.Sleep(1200 * time.Millisecond)
		var within []int64
		for _, sample := range sampler.Stop().samples {
			if sample.AtNS >= turns.BeginNS && sample.AtNS <= turns.EndNS {
				within = append(within, (sample.AtNS-start)/1e6)
			}
		}
		if want := []int64{100, 350, 600, 850, 1095}; !slices.Equal(within, want) {
			t.Errorf("readings at %v ms, want %v", within, want)
		}
	})
}

// A pause is seen whatever the usual time between readings is.
func TestTheLongestStopIsSeenBetweenRareReadings(t *testing.T) {
	var series Series
	for _, ms := range []int64{0, 20, 40, 60, 310, 560, 900, 1150} {
		series.samples = append(series.samples, Usage{AtNS: ms * 1e6})
	}
	if got, want := series.longestStop(60e6, 1150e6), int64(90e6); got != want {
		t.Errorf("%v, want %v", time.Duration(got), time.Duration(want))
	}
	if got := series.longestStop(0, 60e6); got != 0 {
		t.Errorf("%v between regular readings", time.Duration(got))
	}
}

func TestSamplerIsBoundedForAnyLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := clock.Now()
		sampler := StartSampler(steady(start), 10*time.Millisecond)
		const life = 100 * time.Second
		time.Sleep(life)
		series := sampler.Stop()
		if got := len(series.samples); got > maxSamples || got < maxSamples/2 || cap(series.samples) != maxSamples {
			t.Errorf("%d readings in room for %d, want 512 to 1024 in 1024", got, cap(series.samples))
		}
		for i, sample := range series.samples[1 : len(series.samples)-1] {
			// 100 s at 10 ms would be 10,000: the period must have doubled to 160 ms.
			if gap := sample.AtNS - series.samples[i].AtNS; gap != 160_000_000 {
				t.Fatalf("reading %d comes after %v, want 160ms", i+1, time.Duration(gap))
			}
		}
		usage, err := series.Between(start, start+int64(life))
		if err != nil || usage.CPU() != life/2 || usage.MinorFaults != life.Microseconds() {
			t.Errorf("whole life: CPU %v, %d faults, %v; want %v, %d", usage.CPU(), usage.MinorFaults, err, life/2, life.Microseconds())
		}
	})
}

// The last reading of a full series must still be its end.
func TestSamplerStoppedWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := clock.Now()
		sampler := StartSampler(steady(start), time.Millisecond)
		const life = (maxSamples-1)*time.Millisecond + 500*time.Microsecond
		time.Sleep(life)
		series := sampler.Stop()
		if len(series.samples) != maxSamples {
			t.Errorf("%d readings, want %d", len(series.samples), maxSamples)
		}
		if usage, err := series.Between(start, start+int64(life)); err != nil || usage.CPU() != life/2 {
			t.Errorf("CPU %v, %v; want %v", usage.CPU(), err, life/2)
		}
	})
}

func TestSamplerKeepsWhatItHadWhenTheSourceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := clock.Now()
		healthy, calls := steady(start), 0
		sampler := StartSampler(func() (Usage, error) {
			if calls++; calls > 5 {
				return Usage{}, errors.New("no such process")
			}
			return healthy()
		}, 10*time.Millisecond)
		time.Sleep(time.Second)
		series := sampler.Stop()
		if calls != 6 {
			t.Errorf("the source was asked %d times, want no more after it failed", calls)
		}
		if usage, err := series.Between(start, start+40_000_000); err != nil || usage.CPU() != 20*time.Millisecond {
			t.Errorf("CPU %v, %v; want 20ms", usage.CPU(), err)
		}
		if _, err := series.Between(start, start+50_000_000); err == nil || !strings.Contains(err.Error(), "no such process") {
			t.Errorf("past the failure: %v", err)
		}
	})
}

func TestSeriesSurvivesJSON(t *testing.T) {
	first, second := numbered(), numbered()
	first.AtNS, second.AtNS = 5, 9
	second.UserNS += 17
	second.MaxRSSBytes = 1
	series := Series{samples: []Usage{first, second, {AtNS: 12}}, problem: "ended"}
	// By value, inside another value, as a worker's event would hold it.
	encoded, err := json.Marshal(struct{ Usage Series }{series})
	if err != nil {
		t.Fatal(err)
	}
	var decoded struct{ Usage Series }
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(decoded.Usage, series) {
		t.Errorf("read %+v\nwrote %+v", decoded.Usage, series)
	}
}

func TestSeriesIsCompact(t *testing.T) {
	series := busySeries()
	encoded, err := json.Marshal(series)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d readings take %d bytes", len(series.samples), len(encoded))
	if most := 160 * len(series.samples); len(encoded) > most {
		t.Errorf("%d readings take %d bytes, more than %d", len(series.samples), len(encoded), most)
	}
}

// busySeries is full, and grows as a loaded server's does.
func busySeries() Series {
	series := Series{samples: make([]Usage, maxSamples)}
	for i := range series.samples {
		n := int64(i)
		usage := &series.samples[i]
		usage.AtNS = 123_456_789_012_345 + n*40_012_345
		usage.UserNS, usage.SystemNS = n*20_123_000, n*19_876_000
		usage.MaxRSSBytes = 50 << 20
		usage.VoluntarySwitches, usage.InvoluntarySwitches = n*2345, n*12
		usage.MinorFaults = n * 123
		usage.Go = GoUsage{Goroutines: 512, HeapLiveBytes: 4 << 20, AllocatedBytes: n * 12_345_678, AllocatedObjects: n * 98_765, GCCycles: n, GCNS: n * 1_234_567}
		for bucket := range 20 {
			usage.Go.RunWait[bucket] = n * 321
		}
	}
	return series
}

func TestSeriesRefusesBadJSON(t *testing.T) {
	for name, text := range map[string]string{
		"not an object":    `[]`,
		"time stands":      `{"at_ns":[5,0],"figures":{}}`,
		"time goes back":   `{"at_ns":[5,-1],"figures":{}}`,
		"uneven figures":   `{"at_ns":[5,1],"figures":{"user_ns":[1]}}`,
		"too many":         `{"at_ns":[1` + strings.Repeat(",1", maxSamples) + `],"figures":{}}`,
		"values not whole": `{"at_ns":[5],"figures":{"user_ns":[1.5]}}`,
	} {
		var series Series
		if err := json.Unmarshal([]byte(text), &series); err == nil {
			t.Errorf("%s: read as %+v", name, series)
		}
	}
	var series Series
	if err := json.Unmarshal([]byte(`{"at_ns":[5,1],"figures":{"of_the_future":[1,2]}}`), &series); err != nil {
		t.Errorf("an unknown figure: %v", err)
	}
}

func FuzzSeriesJSON(f *testing.F) {
	seed, err := json.Marshal(Series{samples: []Usage{{AtNS: 1, UserNS: 2}, {AtNS: 3, UserNS: 9}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var series Series
		if json.Unmarshal(data, &series) != nil || len(series.samples) == 0 {
			return
		}
		first, last := series.samples[0].AtNS, series.samples[len(series.samples)-1].AtNS
		if _, err := series.Between(first, last); err != nil {
			t.Errorf("what was read cannot be cut: %v", err)
		}
		encoded, err := json.Marshal(series)
		if err != nil {
			t.Fatal(err)
		}
		var again Series
		if err := json.Unmarshal(encoded, &again); err != nil || !reflect.DeepEqual(series, again) {
			t.Errorf("read %+v, then %+v (%v)", series, again, err)
		}
	})
}

func BenchmarkBetween(b *testing.B) {
	series := busySeries()
	first := series.samples[0].AtNS
	for b.Loop() {
		if _, err := series.Between(first+123_456, first+9_876_543_210); err != nil {
			b.Fatal(err)
		}
	}
}

// Readings are due every 20 ms. Of one that comes late, the process's own CPU time tells
// whether it was busy or could not run.
func TestAProcessThatCouldNotRunIsTold(t *testing.T) {
	const ms = int64(time.Millisecond)
	readings := func(late, used int64) Series {
		var s Series
		at, cpu := int64(0), int64(0)
		for i := range 20 {
			s.samples = append(s.samples, Usage{AtNS: at, UserNS: cpu})
			at, cpu = at+20*ms, cpu+10*ms
			if i == 9 {
				at, cpu = at+late, cpu+used-10*ms
			}
		}
		return s
	}
	for name, c := range map[string]struct{ late, used, from, to, want int64 }{
		"in time":               {0, 10 * ms, 0, 300 * ms, 0},
		"stopped":               {50 * ms, 10 * ms, 0, 300 * ms, 40 * ms},
		"idle and stopped":      {50 * ms, 0, 0, 300 * ms, 50 * ms},
		"late, because busy":    {50 * ms, 70 * ms, 0, 300 * ms, 0},
		"stopped in the warmup": {50 * ms, 0, 260 * ms, 380 * ms, 0},
		"stopped at the edge":   {50 * ms, 0, 240 * ms, 380 * ms, 50 * ms},
	} {
		window, err := readings(c.late, c.used).Between(c.from, c.to)
		if err != nil || window.StoppedNS != c.want {
			t.Errorf("%s: stopped for %d ms, %v; want %d", name, window.StoppedNS/ms, err, c.want/ms)
		}
	}
	if window, err := (Series{samples: []Usage{{AtNS: 0}, {AtNS: 500 * ms}}}).Between(0, 100*ms); err != nil || window.StoppedNS != 0 {
		t.Errorf("two readings: %d, %v", window.StoppedNS, err)
	}
}

// A process that is idle for a second and then uses a CPU is seen to, as far as the readings
// reach.
func TestStretchesTellWhenTimeWasUsed(t *testing.T) {
	s := Series{samples: []Usage{{AtNS: 1e9}, {AtNS: 2e9}, {AtNS: 3e9, UserNS: 6e8, SystemNS: 4e8}}}
	for _, c := range []struct {
		begin, each int64
		count       int
		want        []int64
	}{
		{1e9, 1e9, 2, []int64{0, 1e9}},
		{15e8, 1e9, 1, []int64{5e8}},
		{15e8, 1e9, 4, []int64{5e8}},
		{25e8, 25e7, 4, []int64{25e7, 25e7}},
		{0, 1e9, 2, nil},
		{5e9, 1e9, 2, nil},
		{1e9, 0, 2, nil},
	} {
		if got := s.CPUPerInterval(c.begin, c.each, c.count); !slices.Equal(got, c.want) {
			t.Errorf("%d stretches of %d ns from %d: %v, want %v", c.count, c.each, c.begin, got, c.want)
		}
	}
	if got := (Series{}).CPUPerInterval(0, 1, 1); got != nil {
		t.Errorf("without readings: %v", got)
	}
}

func TestSamplerTellsWhatWasSpentSoFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sampler := StartSampler(steady(clock.Now()), 10*time.Millisecond)
		defer sampler.Stop()
		if spent := sampler.Spent(); spent != 0 {
			t.Errorf("%v after no time", spent)
		}
		time.Sleep(105 * time.Millisecond)
		synctest.Wait()
		if spent := sampler.Spent(); spent != 50*time.Millisecond {
			t.Errorf("spent %v of half a CPU in 100 ms", spent)
		}
	})
}
