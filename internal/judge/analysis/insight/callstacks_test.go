package insight

import (
	"slices"
	"testing"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
)

// withStacks adds call stacks to a pass as its probe does: one function for each stage. What a handler
// takes beyond 40 µs it takes in a function of its own.
func withStacks(r *record.Record) *record.Record {
	life := r.Life
	stacks := &record.CallStacks{Functions: append(slices.Clone(life.Stages), "example.com/app.serve", "example.com/app.planted", "time.Sleep")}
	serve, usual := len(life.Stages), int64(40_000)
	for i := range life.Stages {
		stacks.Stacks = append(stacks.Stacks, []int{i, serve})
	}
	planted := len(stacks.Stacks)
	stacks.Stacks = append(stacks.Stacks, []int{planted - 1, serve, serve + 1, serve + 2})
	timesOf := func(calls ...int) (all []record.StackTime) {
		sums := make([]int64, len(stacks.Stacks))
		for _, call := range calls {
			for stage, ns := range life.Calls[call] {
				sums[stage] += ns
			}
			sums[planted-1] -= max(0, life.Calls[call][planted-1]-usual)
			sums[planted] += max(0, life.Calls[call][planted-1]-usual)
		}
		for stack, ns := range sums {
			if ns > 0 {
				all = append(all, record.StackTime{Stack: stack, NS: ns})
			}
		}
		return all
	}
	bySpeed := life.BySpeed()
	stacks.Slow = lists.Map(record.MostSlowCalls(bySpeed), func(call int) []record.StackTime { return timesOf(call) })
	stacks.Median = timesOf(record.MedianCalls(bySpeed)...)
	life.Stacks = stacks
	return r
}

// TestCallStacksAddUp wants profiles of slow and median calls that add up to the same times as the tail,
// in each stage, and the planted function in the slow calls alone.
func TestCallStacksAddUp(t *testing.T) {
	short := func(calls int) *record.Record {
		r := tailPass3000(stalledCall)
		r.Life.Calls = r.Life.Calls[:calls]
		return withStacks(r)
	}
	for name, passes := range map[string][]*record.Record{
		"three passes":  {short(3000), short(3000), short(3000)},
		"few calls":     {short(350), short(150), short(40)}, // together 10 slow calls
		"unequal calls": {short(3000), short(900)},
	} {
		tail, both := newTail(passes), callProfiles(record.Cell{}, passes)
		if len(both) != 2 || both[0].Kind != SlowProfile || both[1].Kind != MedianProfile || both[0].End != "" {
			t.Fatalf("%s: %+v", name, both)
		}
		for i, whole := range []float64{tail.Slow, tail.Median} {
			p := both[i]
			if !near(p.PerCall, 1e3*whole) || !near(p.Total, 1e3*whole) || p.Samples != 0 {
				t.Errorf("%s: %s calls take %v ns, in total %v, want %v", name, p.Kind, p.PerCall, p.Total, 1e3*whole)
			}
			for _, stage := range tail.Stages {
				want, sum := []float64{stage.Slow, stage.Median}[i], 0.0
				for _, s := range p.Stacks {
					if p.Functions[s.Frames[0]].Name == stage.Name && p.Categories[s.Category] == stage.Name {
						sum += s.Weight * p.Total
					}
				}
				if !near(sum, 1e3*want) {
					t.Errorf("%s: the stacks of %s take %v ns of %s calls, want %v", name, stage.Name, sum, p.Kind, 1e3*want)
				}
			}
			planted := slices.ContainsFunc(p.Stacks, func(s ProfiledStack) bool {
				return slices.ContainsFunc(s.Frames, func(f int) bool { return p.Functions[f].Name == "example.com/app.planted" })
			})
			if planted != (p.Kind == SlowProfile) {
				t.Errorf("%s: the planted function is in the %s calls: %v", name, p.Kind, planted)
			}
		}
		// 60 % of the excess is in the run queue, 18 % and 12 % in the collectors, 10 % in the handler.
		want := []TailFunction{{"example.com/app.serve", "server: run queue", 0}, {"example.com/app.serve", "server: collector", 0}, {"example.com/app.serve", "client: collector", 0}}
		if len(tail.Functions) != len(want) {
			t.Fatalf("%s: functions %+v, want %+v", name, tail.Functions, want)
		}
		for i, f := range tail.Functions {
			if f.Function != want[i].Function || f.Stage != want[i].Stage || f.Excess < 0.1*(tail.Slow-tail.Median) {
				t.Errorf("%s: functions %+v, want %+v", name, tail.Functions, want)
			}
		}
	}
}

// TestUnknownCallStacks wants no profiles and no functions if a pass has no call stacks, or too few calls.
func TestUnknownCallStacks(t *testing.T) {
	known, few := withStacks(tailPass3000(stalledCall)), tailPass3000(stalledCall)
	few.Life.Calls = few.Life.Calls[:leastTailCalls-1]
	for name, passes := range map[string][]*record.Record{
		"one of two passes": {known, tailPass3000(stalledCall)}, "no pass": {tailPass3000(stalledCall)}, "few calls": {withStacks(few)},
	} {
		if both := callProfiles(record.Cell{}, passes); len(both) > 0 || len(newTail(passes).Functions) > 0 {
			t.Errorf("call stacks of %s: %+v", name, both)
		}
	}
}

func TestFunctionsOutsideStandardLibrary(t *testing.T) {
	for function, want := range map[string]bool{
		"main.main": true, "wirelab.dev/internal/wire/workload.Pause": true, "google.golang.org/grpc.(*Server).Serve": true, "golang.org/x/sys/unix.Read": true,
		"runtime.selectgo": false, "net.(*conn).Read": false, "internal/poll.(*FD).Read": false, "encoding/json.(*Decoder).Decode": false, "mainly.f": false, record.OtherStacks: false,
	} {
		if got := isOutsideStandardLibrary(function); got != want {
			t.Errorf("%s is outside the standard library: %v", function, got)
		}
	}
}
