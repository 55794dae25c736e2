package gotrace

import (
	"maps"
	"slices"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/probe"
)

// newTimeline returns a timeline with these steps and regions.
func newTimeline(steps map[int64][]step, regions ...region) *timeline {
	t := &timeline{
		span: probe.Span{BeginNS: 1, EndNS: 1000}, steps: steps, regions: regions, byName: map[string][]region{}, own: map[int64][]region{},
		assists: map[int64]weights{}, marks: map[int64][]mark{}, writers: map[int64]int64{}, chance: 1,
	}
	for _, r := range regions {
		t.byName[r.name], t.own[r.goroutine] = append(t.byName[r.name], r), append(t.own[r.goroutine], r)
	}
	return t
}

// multiplexed returns both ends of a call whose goroutine, writer and reader are three goroutines.
func multiplexed() (client, server *timeline) {
	client = newTimeline(map[int64][]step{
		1: {{at: 90, to: running}, {at: 120, to: waiting}, {at: 245, to: ready, by: 3}, {at: 250, to: running, by: nobody}},
		2: {{at: 50, to: waiting}, {at: 118, to: ready, by: 1}, {at: 125, to: running}, {at: 130, to: inSyscall, why: writes}, {at: 140, to: running}, {at: 145, to: waiting}},
		3: {
			{at: 60, to: waiting, why: forNetwork},
			{at: 230, to: ready, by: nobody},
			{at: 235, to: running, by: nobody},
			{at: 236, to: inSyscall, why: reads},
			{at: 238, to: running},
			{at: 247, to: waiting, why: forNetwork},
		},
	}, region{"wirelab call 7", 1, 100, 260})
	client.writers[1] = 2
	server = newTimeline(map[int64][]step{
		5: {
			{at: 50, to: waiting, why: forNetwork},
			{at: 150, to: ready, by: nobody},
			{at: 152, to: running, by: nobody},
			{at: 153, to: inSyscall, why: reads},
			{at: 156, to: running},
			{at: 165, to: waiting, why: forNetwork},
		},
		6: {{at: 40, to: waiting}, {at: 188, to: ready, by: 7}, {at: 195, to: running}, {at: 200, to: inSyscall, why: writes}, {at: 210, to: running}},
		7: {{at: 160, to: ready, by: 5}, {at: 170, to: running, by: nobody}, {at: 190, to: gone}},
	}, region{"wirelab call 7", 7, 175, 185})
	server.writers[5] = 6
	return client, server
}

func divideOne(t *testing.T, client, server *timeline) map[string]int64 {
	t.Helper()
	life := &record.Life{}
	(&turn{client, server, cpuTimes{}, 0}).divide(probe.Span{BeginNS: 0, EndNS: 1000}, 1, life)
	if len(life.Calls) != 1 || life.Untold != 0 || life.Begins[0] != client.regions[0].begin {
		t.Fatalf("%+v; want one call", life)
	}
	stages, sum := map[string]int64{}, int64(0)
	for i, ns := range life.Calls[0] {
		if sum += ns; ns != 0 {
			stages[Stages[i]] = ns
		}
	}
	if want := client.regions[0].end - client.regions[0].begin; sum != want {
		t.Errorf("the stages %v add up to %d, want %d", stages, sum, want)
	}
	return stages
}

func TestMultiplexedCall(t *testing.T) {
	client, server := multiplexed()
	want := map[string]int64{
		"client: encode": 25, "client: run queue": 15, "send request": 20, "receive request": 3, "server: run queue": 17, "server: decode": 10,
		"handler": 10, "server: encode": 10, "send answer": 30, "receive answer": 2, "client: decode": 18,
	}
	if got := divideOne(t, client, server); !maps.Equal(got, want) {
		t.Errorf("the stages are %v,\nwant %v", got, want)
	}
}

// TestPlantedWaits changes one thing about the call at a time, which must change one stage.
func TestPlantedWaits(t *testing.T) {
	usual := func() map[string]int64 {
		client, server := multiplexed()
		return divideOne(t, client, server)
	}()
	for _, c := range []struct {
		name   string
		plant  func(client, server *timeline)
		change map[string]int64
	}{
		{"the server's collector", func(_, server *timeline) {
			server.collecting = weights{{160, 1}, {166, 0}}
		}, map[string]int64{"server: run queue": -6, "server: collector": 6}},
		{"half of the CPUs collect", func(client, _ *timeline) {
			client.collecting = weights{{230, 0.5}, {300, 0}}
		}, map[string]int64{"client: run queue": -4, "client: collector": 4}},
		{"an assist", func(_, server *timeline) {
			server.assists[7] = weights{{176, 1}, {180, 0}}
		}, map[string]int64{"handler": -4, "server: collector": 4}},
		{"a lock in the handler", func(_, server *timeline) {
			server.steps[7] = slices.Insert(server.steps[7], 2, step{at: 176, to: waiting, why: forLock}, step{at: 182, to: ready, by: 9}, step{at: 183, to: running})
		}, map[string]int64{"handler": -7, "handler: wait for lock": 6, "server: run queue": 1}},
		{"a window at the client", func(client, _ *timeline) {
			client.steps[1] = slices.Insert(client.steps[1], 1, step{at: 105, to: waiting, why: forWindow}, step{at: 115, to: ready, by: 3}, step{at: 116, to: running})
		}, map[string]int64{"client: encode": -11, "client: wait for window": 10, "client: run queue": 1}},
		{"other programs on the server's CPU", func(_, server *timeline) {
			server.noCPU = weights{{140, 1}, {151, 0}, {176, 1}, {180, 0}}
		}, map[string]int64{"send request": -10, "server: run queue": -1, "handler": -4, "server: no CPU": 15}},
		{"a server that runs other goroutines", func(_, server *timeline) {
			server.full = weights{{100, 1}, {148, 0}}
		}, map[string]int64{"send request": -18, "server: socket queue": 18}},
		{"a busy reader", func(_, server *timeline) {
			server.steps[5] = slices.Insert(server.steps[5], 0, step{at: 40, to: running})
			server.steps[5][1].at = 141
		}, map[string]int64{"send request": -11, "server: socket queue": 11}},
		{"a request in two parts", func(_, server *timeline) {
			server.steps[5] = slices.Insert(server.steps[5], 1,
				step{at: 134, to: ready, by: nobody}, step{at: 135, to: running}, step{at: 139, to: waiting, why: forNetwork})
			server.steps[7] = []step{{at: 137, to: ready, by: 5}, {at: 138, to: running}, {at: 138, to: waiting}, {at: 160, to: ready, by: 5}, {at: 170, to: running}, {at: 190, to: gone}}
		}, map[string]int64{"send request": -16, "server: socket queue": 3, "transfer request": 13}},
	} {
		client, server := multiplexed()
		c.plant(client, server)
		want := maps.Clone(usual)
		for stage, by := range c.change {
			if want[stage] += by; want[stage] == 0 {
				delete(want, stage)
			}
		}
		if got := divideOne(t, client, server); !maps.Equal(got, want) {
			t.Errorf("%s: the stages are %v,\nwant %v", c.name, got, want)
		}
	}
}

// TestOneGoroutinePerEnd follows a call whose goroutines write and read themselves. The answer comes
// before the client can wait for it.
func TestOneGoroutinePerEnd(t *testing.T) {
	client := newTimeline(map[int64][]step{
		1: {{at: 90, to: running}, {at: 110, to: inSyscall, why: writes}, {at: 180, to: running}, {at: 182, to: inSyscall, why: reads}, {at: 190, to: running}},
	}, region{"wirelab call 1", 1, 100, 200})
	server := newTimeline(map[int64][]step{
		5: {
			{at: 50, to: waiting, why: forNetwork},
			{at: 120, to: ready, by: nobody},
			{at: 121, to: running},
			{at: 122, to: inSyscall, why: reads},
			{at: 124, to: running},
			{at: 125, to: inSyscall, why: reads},
			{at: 126, to: running},
			{at: 150, to: inSyscall, why: writes},
			{at: 170, to: running},
		},
	}, region{"wirelab call 1", 5, 130, 140})
	want := map[string]int64{
		"client: encode": 10, "send request": 10, "server: run queue": 1, "server: decode": 6, "receive request": 3,
		"handler": 10, "server: encode": 10, "client: socket queue": 32, "receive answer": 8, "client: decode": 10,
	}
	if got := divideOne(t, client, server); !maps.Equal(got, want) {
		t.Errorf("the stages are %v,\nwant %v", got, want)
	}
}

func TestCallsWithoutHandler(t *testing.T) {
	client, server := multiplexed()
	server.byName = nil
	life := &record.Life{}
	(&turn{client, server, cpuTimes{}, 0}).divide(probe.Span{BeginNS: 0, EndNS: 1000}, 1, life)
	(&turn{client, server, cpuTimes{}, 0}).divide(probe.Span{BeginNS: 101, EndNS: 1000}, 1, life) // the call began before this window
	if life.Untold != 1 || len(life.Calls) != 0 {
		t.Errorf("%+v; want one call whose stages are unknown", life)
	}
}

// TestServiceThatDoesNotTraceItself: only the client's stages are known, and when the service had a CPU.
func TestServiceThatDoesNotTraceItself(t *testing.T) {
	client, _ := multiplexed()
	usual := map[string]int64{"client: encode": 25, "client: run queue": 15, "receive answer": 2, "client: decode": 18}
	for name, c := range map[string]struct {
		service cpuTimes
		want    map[string]int64
	}{
		"unknown processes": {want: map[string]int64{"service and wire": 100}},
		"known processes": {
			cpuTimes{known: true, without: weights{{140, 1}, {150, 0}}, asleep: weights{{10, 1}, {140, 0}, {200, 1}, {260, 0}}},
			map[string]int64{"server: no CPU": 10, "service: waits": 10 + 30, "service: runs": 50},
		},
	} {
		maps.Copy(c.want, usual)
		life := &record.Life{}
		(&turn{client, nil, c.service, 0}).divide(probe.Span{BeginNS: 0, EndNS: 1000}, 1, life)
		if len(life.Calls) != 1 {
			t.Fatalf("%s: %+v", name, life)
		}
		got := map[string]int64{}
		for i, ns := range life.Calls[0] {
			if ns != 0 {
				got[Stages[i]] = ns
			}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: the stages are %v, want %v", name, got, c.want)
		}
	}
}

func TestCPUTimes(t *testing.T) {
	times := cpuTimesOf([]threadEvent{
		{10, 1, threadRuns},
		{20, 1, threadPreempted},
		{30, 1, threadRuns},
		{35, 2, threadWoken},
		{40, 1, threadSleeps},
		{50, 1, threadWoken},
		{55, 1, threadWoken},
		{60, 1, threadRuns},
		{65, 1, threadPreempted},
		{66, 2, threadRuns},
		{70, 2, threadSleeps},
		{90, 1, threadRuns},
	})
	want := weights{{20, 1}, {30, 0}, {50, 1}, {60, 0}, {65, 1}, {66, 0}, {70, 1}, {90, 0}}
	if !slices.Equal(times.without, want) || !slices.Equal(times.asleep, weights{{40, 1}, {50, 0}}) {
		t.Errorf("without a CPU %v, want %v; asleep %v", times.without, want, times.asleep)
	}
	if lost := times.without.integral(25, 80); lost != 5+10+1+10 {
		t.Errorf("between 25 and 80, %v ns without a CPU, want 26", lost)
	}
}
