package life

import (
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/machine/probe"
)

const (
	poller = 7 // threads
	reader = 8
)

// oneCall is a call from 100 to 250, whose handler runs from 160 to 170, with the events of
// both ends around it, and others of no matter.
func oneCall() (call, handler [2]int64, events []event) {
	return [2]int64{100, 150}, [2]int64{160, 10}, []event{
		{90, writeEnters, probe.Client, reader},  // of the call before
		{104, readReturns, probe.Client, reader}, // of something else that it reads
		{105, writeEnters, probe.Client, reader},
		{110, dataArrives, probe.Server, 0},
		{112, writeEnters, probe.Client, reader}, // the message's second part
		{115, dataArrives, probe.Server, 0},
		{120, threadRuns, probe.Server, poller},
		{130, readEnters, probe.Server, reader},
		{131, readEnters, probe.Server, poller},
		{140, readReturns, probe.Server, reader},
		{180, writeEnters, probe.Server, reader},
		{190, dataArrives, probe.Client, 0},
		// The client spins: no thread of it needs to be woken.
		{200, readEnters, probe.Client, reader},
		{210, readReturns, probe.Client, reader},
	}
}

var always = turns{on: []probe.Span{{BeginNS: 0, EndNS: 1000}}}

func TestStagesAddUp(t *testing.T) {
	call, handler, events := oneCall()
	life := divideCalls([][2]int64{call}, [][2]int64{handler}, events, always)
	want := []int64{5, 10, 5, 10, 10, 20, 10, 10, 10, 0, 10, 10, 40}
	if len(life.Calls) != 1 || !slices.Equal(life.Calls[0], want) || life.Untold != 0 {
		t.Errorf("the stages %v take %v, %d untold; want %v", life.Stages, life.Calls, life.Untold, want)
	}
	if *life.TracedNS != 150 || life.BareNS != nil {
		t.Errorf("traced %v, bare %v", life.TracedNS, life.BareNS)
	}
}

// TestABlockedReader was in its read before the data came.
func TestABlockedReader(t *testing.T) {
	call, handler, events := oneCall()
	events = slices.DeleteFunc(events, func(e event) bool { return e.atNS == 130 })
	events = slices.Insert(events, 2, event{105, readEnters, probe.Server, reader})
	life := divideCalls([][2]int64{call}, [][2]int64{handler}, events, always)
	if want := []int64{5, 10, 5, 0, 20, 20, 10, 10, 10, 0, 10, 10, 40}; len(life.Calls) != 1 || !slices.Equal(life.Calls[0], want) {
		t.Errorf("the stages take %v, want %v", life.Calls, want)
	}
}

// TestWhatIsMissingIsNotTold leaves each event out in turn that a stage needs.
func TestWhatIsMissingIsNotTold(t *testing.T) {
	call, handler, events := oneCall()
	for _, without := range [][]int64{{105, 112}, {110, 115}, {140}, {180}, {190}, {210}} {
		fewer := slices.DeleteFunc(slices.Clone(events), func(e event) bool { return slices.Contains(without, e.atNS) })
		if life := divideCalls([][2]int64{call}, [][2]int64{handler}, fewer, always); life.Untold != 1 || len(life.Calls) != 0 {
			t.Errorf("without the events of %v the stages take %v, %d untold", without, life.Calls, life.Untold)
		}
	}
	for name, handlers := range map[string][][2]int64{"no handler": nil, "two handlers": {handler, {220, 1}}, "a handler that ends behind the call": {{160, 100}}} {
		if life := divideCalls([][2]int64{call}, handlers, events, always); life.Untold != 1 {
			t.Errorf("%s: the stages take %v, %d untold", name, life.Calls, life.Untold)
		}
	}
}

// TestTurnsTellTheCost: a call at the edge of a turn is neither traced nor bare, nor is one while programs are
// being detached.
func TestTurnsTellTheCost(t *testing.T) {
	periods := turns{on: []probe.Span{{BeginNS: 0, EndNS: 100}}, off: []probe.Span{{BeginNS: 120, EndNS: 300}}, lost: []probe.Span{{BeginNS: 400, EndNS: 500}}}
	life := divideCalls([][2]int64{{10, 30}, {50, 50}, {90, 20}, {105, 70}, {120, 7}, {200, 9}, {410, 5}, {420, 5}}, nil, nil, periods)
	if *life.TracedNS != 40 || *life.BareNS != 8 || life.Untold != 4 {
		t.Errorf("traced %v, bare %v, %d untold; want 40, 8, and 2 without a handler with 2 lost", *life.TracedNS, *life.BareNS, life.Untold)
	}
	if len(life.Missing) != 1 || !strings.HasPrefix(life.Missing[0], "2 of 8 calls: the kernel had no room") {
		t.Errorf("missing: %q", life.Missing)
	}
}

// TestCallsInPausesAloneAreExplained: the probe got no CPU in the window.
func TestCallsInPausesAloneAreExplained(t *testing.T) {
	life := divideCalls([][2]int64{{120, 7}, {200, 9}, {320, 9}}, nil, nil, turns{off: []probe.Span{{BeginNS: 120, EndNS: 300}}})
	if life.Calls != nil || life.Untold != 3 || len(life.Missing) != 1 || !strings.HasPrefix(life.Missing[0], "all 3 calls: none began and ended while the programs ran") {
		t.Errorf("%d untold, missing %q", life.Untold, life.Missing)
	}
}
