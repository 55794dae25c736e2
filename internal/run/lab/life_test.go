package lab

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
)

// lives runs the probe of a call's life with each stack, and skips where the kernel refuses.
func lives(t *testing.T, stacks, workload string, network scenario.Network) map[string]*record.Record {
	t.Helper()
	found := livesOf(t, 1, stacks, workload, network)
	for _, r := range found {
		if len(r.Life.Missing) > 0 {
			t.Skip(r.Life.Missing)
		}
	}
	return found
}

func livesOf(t *testing.T, clients int, stacks, workload string, network scenario.Network) map[string]*record.Record {
	t.Helper()
	s := oneCell(t, stacks)
	p := &s.Parts[0]
	p.Workload, p.Network, p.Clients, p.Probes = workload, network, []int{clients}, []scenario.Probe{record.ProbeLife}
	if strings.HasPrefix(workload, "store") {
		p.Sizes = []scenario.Payload{{}}
	}
	p.Load = scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(time.Millisecond)}
	found := map[string]*record.Record{}
	for _, r := range runAll(t, newLab(t), s) {
		if network != loopback && strings.Contains(r.Failure, host.ErrUnsupported.Error()) {
			t.Skip(r.Failure)
		}
		if r.Failure != "" {
			t.Fatal(r.Failure)
		}
		if r.Probe != record.ProbeLife {
			continue
		}
		if r.Life == nil {
			t.Fatalf("%s: nothing was seen: %v", r.Cell.Variant, r.Warnings)
		}
		found[r.Cell.Variant] = &r
	}
	return found
}

// TestEveryStacksCallsAreTold sees real calls of all wires.
func TestEveryStacksCallsAreTold(t *testing.T) {
	takesSeconds(t)
	all := lives(t, "tcp,tcp:tls=on,rest,h1,h1:tls=on,h2,h2:tls=on,h3,grpc,grpc:tls=on,fastgrpc,fastgrpc:tls=on,grpc-h3,connect", "echo", loopback)
	if len(all) != 14 {
		t.Errorf("%d stacks were seen", len(all))
	}
	for name, r := range all {
		// On a busy machine the probe may be read so late that few calls or none lie between
		// two readings as a whole.
		for again := 0; (r.Life.TracedNS == nil || len(r.Life.Calls) < 20) && again < 3; again++ {
			t.Logf("%s: %d calls were seen as a whole: %v", name, len(r.Life.Calls), r.Warnings)
			r = lives(t, name, "echo", loopback)[name]
		}
		if r.Life.TracedNS == nil {
			t.Errorf("%s: no call was seen as a whole, four times", name)
			continue
		}
		told, untold := len(r.Life.Calls), r.Life.Untold
		t.Logf("%s: %d calls told, %d not; a call takes %.1f µs while it is seen", name, told, untold, *r.Life.TracedNS/1e3)
		if r.Life.BareNS != nil { // calls are slow otherwise
			t.Logf("%s: %.1f µs by turns without", name, *r.Life.BareNS/1e3)
		}
		if told < 20 || float64(told) < 0.9*float64(int64(told)+untold) {
			t.Errorf("%s: the stages of %d calls are known, of %d unknown", name, told, untold)
		}
		var sum float64
		for _, stages := range r.Life.Calls {
			if len(stages) != len(r.Life.Stages) || slices.Min(stages) < 0 {
				t.Fatalf("%s: the stages %v take %v", name, r.Life.Stages, stages)
			}
			for _, stage := range stages {
				sum += float64(stage)
			}
		}
		if mean := sum / float64(told); untold == 0 && math.Abs(mean-*r.Life.TracedNS) > 1 {
			t.Errorf("%s: the stages take %v ns together, the calls %v ns", name, mean, *r.Life.TracedNS)
		}
	}
}

// TestMarksOfAllStacks follows calls of several clients, whose marks travel in messages, or in metadata
// where messages are JSON or streams.
func TestMarksOfAllStacks(t *testing.T) {
	takesSeconds(t)
	for workload, stacks := range map[string]string{
		"echo":                             "tcp,rest,h1,h1:codec=json,h3,grpc,fastgrpc,creditrpc,connect,grpc-h3",
		"store:op=get,chunk=1KiB,chunks=2": "tcp,grpc,fastgrpc",
	} {
		all := livesOf(t, 4, stacks, workload, loopback)
		if want := strings.Count(stacks, ",") + 1; len(all) != want {
			t.Errorf("%s: %d stacks were observed, want %d", workload, len(all), want)
		}
		for name, r := range all {
			// On a busy machine, few calls or none may lie within a turn of both ends.
			for again := 0; len(r.Life.Calls) < 20 && again < 3; again++ {
				t.Logf("%s: the stages of %d calls are known: %v", name, len(r.Life.Calls), r.Warnings)
				r = livesOf(t, 4, name, workload, loopback)[name]
			}
			known, unknown := len(r.Life.Calls), r.Life.Untold
			t.Logf("%s over %s: the stages of %d calls are known, of %d unknown", workload, name, known, unknown)
			if known < 20 || float64(known) < 0.9*float64(int64(known)+unknown) {
				t.Errorf("%s over %s: the stages of %d calls are known, of %d unknown", workload, name, known, unknown)
			}
		}
	}
}

// TestNoMarksInPlainJSON: a stack whose messages and metadata carry no mark works as without one, and the
// record says why no call has stages.
func TestNoMarksInPlainJSON(t *testing.T) {
	takesSeconds(t)
	r := livesOf(t, 4, "rest-json", "echo", loopback)["rest-json"]
	if len(r.Life.Calls) != 0 || len(r.Life.Missing) == 0 || r.Completed != r.Requests {
		t.Errorf("%d calls have stages; %d of %d calls succeeded; missing: %v", len(r.Life.Calls), r.Completed, r.Requests, r.Life.Missing)
	}
}

// TestASleepIsTheHandlers knows why calls of one workload take longer.
func TestASleepIsTheHandlers(t *testing.T) {
	takesSeconds(t)
	const sleep = 20 * time.Millisecond
	for _, stack := range []string{"tcp", "h3"} {
		plain := lives(t, stack, "echo", loopback)[stack].Life
		slow := lives(t, stack, "echo:stall="+sleep.String()+",every=1", loopback)[stack].Life
		if len(plain.Calls) < 20 || len(slow.Calls) < 5 {
			t.Errorf("%s: %d and %d calls are told", stack, len(plain.Calls), len(slow.Calls))
			continue
		}
		at := slices.Index(slow.Stages, "handler")
		handler := func(stages []int64) int64 { return stages[at] }
		longer := medianOf(slow.Calls, total) - medianOf(plain.Calls, total)
		there := medianOf(slow.Calls, handler) - medianOf(plain.Calls, handler)
		// On a machine that others use, calls also wait for a CPU, in other stages.
		if longer < int64(sleep) || there < int64(sleep) || float64(there) < float64(longer)*2/3 {
			t.Errorf("%s: calls take %v longer, and %v longer in the handler", stack, time.Duration(longer), time.Duration(there))
		}
	}
}

// TestAStallsFunction finds the function in which every 50th call sleeps in the slow calls of a pass, and not
// in its median calls.
func TestAStallsFunction(t *testing.T) {
	takesSeconds(t)
	const stall = 40 * time.Millisecond
	s := oneCell(t, "grpc")
	p := &s.Parts[0]
	p.Workload, p.Probes = "echo:stall="+stall.String()+",every=50", []scenario.Probe{record.ProbeLife}
	p.Load = scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(2 * time.Second)}
	for _, r := range runAll(t, newLab(t), s) {
		if r.Probe != record.ProbeLife {
			continue
		}
		if r.Failure != "" || r.Life == nil || r.Life.Stacks == nil {
			t.Fatalf("%s: no call stacks: %+v", r.Failure, r.Life)
		}
		stacks := r.Life.Stacks
		asleep := func(times []record.StackTime) (ns time.Duration) {
			for _, one := range times {
				names := stacks.Names(one.Stack)
				if names[0] == "handler: wait" && slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, "workload.(*Stall).DelayIfDue") }) {
					ns += time.Duration(one.NS)
				}
			}
			return ns
		}
		slow := 0
		for _, call := range stacks.Slow {
			if asleep(call) > stall/2 {
				slow++
			}
		}
		text, err := json.Marshal(stacks)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d of %d slow calls of %d stalled; %d bytes of call stacks", slow, len(stacks.Slow), len(r.Life.Calls), len(text))
		if slow == 0 || asleep(stacks.Median) > 0 {
			t.Errorf("%d of %d slow calls stalled, and median calls for %v", slow, len(stacks.Slow), asleep(stacks.Median))
		}
		for i, call := range record.MostSlowCalls(r.Life.BySpeed()) {
			sum := int64(0)
			for _, one := range stacks.Slow[i] {
				sum += one.NS
			}
			if sum != total(r.Life.Calls[call]) {
				t.Errorf("the call stacks of slow call %d have %d ns, its stages %d ns", i, sum, total(r.Life.Calls[call]))
			}
		}
	}
}

// TestLongCallsAreTold stalls every 10th call for longer than a turn of tracing. If they were left out, the
// slow calls would look short.
func TestLongCallsAreTold(t *testing.T) {
	takesSeconds(t)
	const stall = 350 * time.Millisecond
	s := oneCell(t, "grpc")
	p := &s.Parts[0]
	p.Workload, p.Probes, p.Clients = "echo:stall="+stall.String()+",every=10", []scenario.Probe{record.ProbeLife}, []int{4}
	p.Load = scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(2 * time.Second)}
	passes := 0
	for _, r := range runAll(t, newLab(t), s) {
		if r.Probe != record.ProbeLife {
			continue
		}
		passes++
		if r.Failure != "" || r.Life == nil || len(r.Life.Calls) == 0 {
			t.Fatalf("%s: no stages: %+v", r.Failure, r.Life)
		}
		long := 0
		for _, stages := range r.Life.Calls {
			if total(stages) >= int64(stall) {
				long++
			}
		}
		if t.Logf("%d of %d calls are long; %s", long, len(r.Life.Calls), r.Life.Method); 20*long < len(r.Life.Calls) {
			t.Errorf("%d of %d calls stalled, want about one in ten", long, len(r.Life.Calls))
		}
	}
	if passes == 0 {
		t.Error("no pass was measured")
	}
}

// TestADelayIsTheSendings knows why calls over a slower network take longer.
func TestADelayIsTheSendings(t *testing.T) {
	takesSeconds(t)
	const delay = 20 * time.Millisecond // each way
	network := scenario.Network{Path: scenario.Path{Delay: scenario.Duration(delay)}}
	for stack, r := range lives(t, "tcp,h3", "echo", network) {
		if len(r.Life.Calls) < 5 || r.Life.Untold > int64(len(r.Life.Calls)) {
			t.Errorf("%s: the stages of %d calls are known, of %d unknown", stack, len(r.Life.Calls), r.Life.Untold)
			continue
		}
		sent := medianOf(r.Life.Calls, func(stages []int64) (sum int64) {
			for i, stage := range r.Life.Stages {
				if strings.HasPrefix(stage, "send ") {
					sum += stages[i]
				}
			}
			return sum
		})
		if all := medianOf(r.Life.Calls, total); sent < int64(2*delay) || float64(sent) < float64(all)*2/3 {
			t.Errorf("%s: of %v, %v are sending", stack, time.Duration(all), time.Duration(sent))
		}
	}
}

var loopback scenario.Network

func total(stages []int64) (sum int64) {
	for _, stage := range stages {
		sum += stage
	}
	return sum
}

func medianOf(calls [][]int64, figure func([]int64) int64) int64 {
	figures := make([]int64, len(calls))
	for i, stages := range calls {
		figures[i] = figure(stages)
	}
	slices.Sort(figures)
	return figures[len(figures)/2]
}
