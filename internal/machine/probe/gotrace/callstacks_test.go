package gotrace

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/probe"
)

const (
	waitsForAnswer = "main.client;main.call;net.(*conn).Read"
	writesAnswer   = "main.serve;net.(*conn).Write"
	plantedWait    = "main.serve;main.planted;time.Sleep"
)

// manyCalls returns both ends of calls one after the other. The handler waits in each call where wait returns
// a time, with the call stack that it returns.
func manyCalls(calls int, stacks *stackTable, wait func(call int) (ns int64, stack string)) *turn {
	on := func(functions string) stackID { return stacks.addNames(strings.Split(functions, ";")) }
	client, server := newTimeline(map[int64][]step{1: {{at: 1, to: running}}}), newTimeline(map[int64][]step{5: {{at: 1, to: waiting, why: forNetwork}}})
	at := int64(1000)
	do := func(t *timeline, g int64, after int64, s step) {
		at += after
		s.at = at
		if before := t.steps[g]; s.stack == unknownStack {
			s.stack = before[len(before)-1].stack
		}
		t.steps[g] = append(t.steps[g], s)
	}
	for i := range calls {
		name, begin := fmt.Sprint(CallRegion, i), at
		client.marks[1] = append(client.marks[1], mark{at + 4, on("main.client;main.marked")})
		do(client, 1, 10, step{to: inSyscall, why: writes, stack: on("main.client;main.call;net.(*conn).Write")})
		do(client, 1, 10, step{to: running})
		do(client, 1, 8, step{to: waiting, why: forNetwork, stack: on(waitsForAnswer)})
		do(server, 5, 2, step{to: ready, by: nobody, stack: on("main.serve;net.(*conn).Read")})
		do(server, 5, 1, step{to: running, by: nobody})
		do(server, 5, 1, step{to: inSyscall, why: reads, stack: on("main.serve;net.(*conn).Read")})
		do(server, 5, 3, step{to: running})
		handled := at + 1
		if ns, stack := wait(i); ns > 0 {
			do(server, 5, 2, step{to: waiting, stack: on(stack)})
			do(server, 5, ns, step{to: ready, stack: on(stack)})
			do(server, 5, 1, step{to: running, by: nobody})
		}
		at += 4
		server.regions = append(server.regions, region{name, 5, handled, at})
		do(server, 5, 6, step{to: inSyscall, why: writes, stack: on(writesAnswer)})
		server.marks[5] = append(server.marks[5], mark{at, on(writesAnswer)})
		do(server, 5, 3, step{to: running})
		do(server, 5, 1, step{to: waiting, why: forNetwork, stack: on("main.serve;net.(*conn).Read")})
		do(client, 1, 5, step{to: ready, by: nobody, stack: on(waitsForAnswer)})
		do(client, 1, 5, step{to: running, by: nobody})
		at += 20
		client.marks[1] = append(client.marks[1], mark{at, on("main.client;main.call")})
		client.regions = append(client.regions, region{name, 1, begin, at})
		at += 100
	}
	for _, t := range []*timeline{client, server} {
		t.span = probe.Span{BeginNS: 1, EndNS: at}
		for _, r := range t.regions {
			t.byName[r.name], t.own[r.goroutine] = append(t.byName[r.name], r), append(t.own[r.goroutine], r)
		}
	}
	return &turn{client: client, server: server}
}

// divideAll divides all calls, and checks that the call stacks of each group have its calls' times, in
// each stage.
func divideAll(t *testing.T, both *turn, stacks *stackTable) (*record.Life, *record.CallStacks) {
	t.Helper()
	life := &record.Life{Stages: Stages}
	calls := both.divide(probe.Span{BeginNS: 0, EndNS: 1 << 62}, 1, life)
	if life.Untold > 0 || len(life.Calls) != len(both.client.regions) {
		t.Fatalf("%d calls have stages, %d have none, of %d", len(life.Calls), life.Untold, len(both.client.regions))
	}
	chosen := stacks.slowAndMedian(life, calls)
	wantCallStacks(t, life, chosen)
	return life, chosen
}

// wantCallStacks checks that the call stacks of each group have its calls' times, in each stage.
func wantCallStacks(t *testing.T, life *record.Life, chosen *record.CallStacks) {
	t.Helper()
	stagesOf := func(times []record.StackTime) []int64 {
		sums := make([]int64, len(life.Stages))
		for _, one := range times {
			sums[slices.Index(life.Stages, chosen.Names(one.Stack)[0])] += one.NS
		}
		return sums
	}
	bySpeed := life.BySpeed()
	slow := record.MostSlowCalls(bySpeed)
	if len(chosen.Slow) != len(slow) {
		t.Fatalf("%d slow calls, want %d", len(chosen.Slow), len(slow))
	}
	for i, call := range slow {
		if got := stagesOf(chosen.Slow[i]); !slices.Equal(got, life.Calls[call]) {
			t.Errorf("the call stacks of slow call %d have %v, its stages %v", i, got, life.Calls[call])
		}
	}
	median := make([]int64, len(life.Stages))
	for _, call := range record.MedianCalls(bySpeed) {
		for stage, ns := range life.Calls[call] {
			median[stage] += ns
		}
	}
	if got := stagesOf(chosen.Median); !slices.Equal(got, median) {
		t.Errorf("the call stacks of median calls have %v, their stages %v", got, median)
	}
}

// timesByName returns the time of each stack, with its names.
func timesByName(chosen *record.CallStacks, of []record.StackTime) map[string]int64 {
	times := map[string]int64{}
	for _, one := range of {
		times[strings.Join(chosen.Names(one.Stack), ";")] += one.NS
	}
	return times
}

// TestPlantedFunction has a function in which the handler of every 50th call waits.
func TestPlantedFunction(t *testing.T) {
	stacks := newStackTable()
	_, chosen := divideAll(t, manyCalls(1000, stacks, func(call int) (int64, string) {
		if call%50 == 7 {
			return int64(500 + call), plantedWait
		}
		return 0, ""
	}), stacks)
	for i, call := range chosen.Slow {
		planted := 500 + 957 - 50*i // the slowest first
		got := timesByName(chosen, call)
		if waited, queued := got["handler: wait;"+plantedWait], got["server: run queue;"+plantedWait]; waited != int64(planted) || queued != 1 {
			t.Errorf("slow call %d waited %d and %d ns in the planted function, want %d and 1: %v", i, waited, queued, planted, got)
		}
	}
	const calls = 200 // between P40 and P60
	got := timesByName(chosen, chosen.Median)
	for stack, ns := range map[string]int64{
		"server: run queue;main.serve;net.(*conn).Read":          1, // with the stack with which it blocked
		"receive request;main.serve;net.(*conn).Read":            3,
		"handler;" + writesAnswer:                                3, // with the stack of what it did next
		"server: encode;" + writesAnswer:                         6,
		"client: run queue;" + waitsForAnswer:                    5,
		"client: decode;main.client;main.call":                   20,
		"client: encode;main.client;main.marked":                 4,
		"client: encode;main.client;main.call;net.(*conn).Write": 6,
	} {
		if got[stack] != calls*ns {
			t.Errorf("%s: %d ns in the median calls, want %d: %v", stack, got[stack], calls*ns, got)
		}
	}
	for stack := range got {
		if strings.Contains(stack, "planted") {
			t.Errorf("a median call has %s", stack)
		}
	}
}

// TestRunningGoroutine wants the time of a goroutine that runs at the stacks of what it does, each up to then.
func TestRunningGoroutine(t *testing.T) {
	stacks := newStackTable()
	first, second, blocked := stacks.addNames([]string{"f", "g"}), stacks.addNames([]string{"f", "h"}), stacks.addNames([]string{"f", "b"})
	one := newTimeline(map[int64][]step{1: {{at: 10, to: running, stack: blocked}, {at: 50, to: waiting, stack: blocked}, {at: 60, to: running, stack: blocked}}})
	one.marks[1] = []mark{{5, second}, {20, first}, {40, second}, {50, blocked}}
	type span struct {
		from, until int64
		stack       stackID
	}
	var got []span
	for p := range one.parts(1, 0, 70) {
		got = append(got, span{p.from, p.until, p.stack})
	}
	want := []span{{0, 10, unknownStack}, {10, 20, first}, {20, 40, second}, {40, 50, blocked}, {50, 60, blocked}, {60, 70, blocked}}
	if !slices.Equal(got, want) {
		t.Errorf("parts %v, want %v", got, want)
	}
}

// TestManyCallStacks wants a bounded record of calls with different stacks each, with their whole time.
func TestManyCallStacks(t *testing.T) {
	stacks := newStackTable()
	life, chosen := divideAll(t, manyCalls(6000, stacks, func(call int) (int64, string) {
		var deep strings.Builder
		for i := range 100 {
			fmt.Fprintf(&deep, "example.com/some/package%d.(*Type).Function%d;", call%40, i)
		}
		return int64(100 + call), deep.String() + fmt.Sprintf("example.com/some/package.Last%d", call)
	}), stacks)
	text, err := json.Marshal(chosen)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d stacks, %d bytes", len(chosen.Stacks), len(text))
	if len(text) > 100<<10 || len(chosen.Stacks) < 20 {
		t.Errorf("%d call stacks take %d bytes of a record", len(chosen.Stacks), len(text))
	}
	other := timesByName(chosen, chosen.Median)["handler: wait;"+record.OtherStacks]
	if other == 0 || len(life.Calls) != 6000 {
		t.Errorf("the smallest stacks of %d calls are not added up", len(life.Calls))
	}
}
