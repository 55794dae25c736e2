package plan

import (
	"path/filepath"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// planned returns a plan that repeats cells with the given windows.
func planned(t *testing.T, repeats int, windows ...time.Duration) []scenario.PlannedCell {
	t.Helper()
	var cells []scenario.Cell
	for i, window := range windows {
		cells = append(cells, scenario.Cell{Part: "p", Variant: scenario.Variant{Stack: "tcp"}, Workload: "echo", Clients: i + 1, Load: scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(window)}})
	}
	return scenario.Order(1, cells, nil, repeats)
}

// A cell that takes ten times as long as it should moves its own repeats, and not what is
// expected of others.
func TestOneSlowCellMovesItsOwnRepeats(t *testing.T) {
	const window = 400 * time.Millisecond // a second with the overhead
	plan := planned(t, 2, window, window, window, window)
	e := NewEstimate(plan, nil)
	if left := e.Remaining(); left != 8*time.Second {
		t.Errorf("before anything: %v left, want 8 s", left)
	}
	for number, trial := range plan[:3] {
		took := time.Second
		if trial.Cell.Clients == plan[0].Cell.Clients {
			took = 10 * time.Second
		}
		e.noteTime(number, took)
		delete(e.open, number)
	}
	// The slow cell once more, two more of the others, the fourth twice.
	if left := e.Remaining(); left != 14*time.Second {
		t.Errorf("after three: %v left, want 14 s", left)
	}
}

// A run with an anchor takes longer: by five seconds, or by 3 % if that is more.
func TestTheEstimateHoldsTheAnchor(t *testing.T) {
	for window, want := range map[time.Duration]time.Duration{400 * time.Millisecond: 3*time.Second + 5*time.Second, 99400 * time.Millisecond: 309 * time.Second} {
		if left := NewEstimate(planned(t, minRepeats, window), nil).Remaining(); left != want {
			t.Errorf("a window of %v: %v left, want %v", window, left, want)
		}
	}
}

// A run that goes on knows what its trials took.
func TestEstimateOfARunThatGoesOn(t *testing.T) {
	plan := planned(t, 2, 400*time.Millisecond)
	run, err := record.Create(filepath.Join(t.TempDir(), "run"), record.Manifest{Version: record.Version, Order: nil})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Finish(record.Interrupted) })
	if err := run.Append(record.Record{Version: record.Version, Trial: 0, Repeat: 1, TookNS: int64(7 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	if left := NewEstimate(plan, run).Remaining(); left != 7*time.Second {
		t.Errorf("%v left, want what the first trial took", left)
	}
}

// A cell without a trial takes as long as cells of its size, not as long as most cells.
func TestCellsTakeAsLongAsThoseLikeThem(t *testing.T) {
	const window, usual = 400 * time.Millisecond, time.Second
	var plan []scenario.PlannedCell
	for clients := 1; clients <= 4; clients++ {
		for _, stack := range []string{"tcp", "grpc"} {
			for _, size := range []scenario.Size{64, 64 << 10} {
				plan = append(plan, scenario.PlannedCell{Repeat: 1, Cell: scenario.Cell{
					Part: "p", Variant: scenario.Variant{Stack: stack}, Workload: "echo", Size: scenario.Payload{Request: size, Response: size},
					Clients: clients, Load: scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(window)},
				}})
			}
		}
	}
	e := NewEstimate(plan, nil)
	for number, trial := range plan[:4] { // those of one client: gRPC's large messages are slow
		took := usual
		if trial.Cell.Variant.Stack == "grpc" && trial.Cell.Size.Request > 64 {
			took = 11 * usual
		}
		e.noteTime(number, took)
		delete(e.open, number)
	}
	if left := e.Remaining().Round(time.Millisecond); left != 9*usual+3*11*usual {
		t.Errorf("%v left, want 9 s and three times 11 s", left)
	}
}

// What a trial should take depends on what its cell asks for.
func TestExpectedTime(t *testing.T) {
	cell := func(change func(*scenario.Cell)) scenario.Cell {
		c := scenario.Cell{Workload: "echo", Clients: 10, Load: scenario.Load{Model: scenario.Closed, Requests: 1000}}
		change(&c)
		return c
	}
	small := expectedTime(cell(func(*scenario.Cell) {}))
	for name, change := range map[string]func(*scenario.Cell){
		"large messages":      func(c *scenario.Cell) { c.Size.Request = 64 << 10 },
		"more requests":       func(c *scenario.Cell) { c.Load.Requests = 2000 },
		"a connection a call": func(c *scenario.Cell) { c.Connection.Mode = scenario.New },
		"simulated work":      func(c *scenario.Cell) { c.Workload = "users:op=get-user,work=10ms" },
		"a delay":             func(c *scenario.Cell) { c.Network.Delay = scenario.Duration(10 * time.Millisecond) },
		"a search of one step": func(c *scenario.Cell) {
			c.Load = scenario.Load{Model: scenario.Search, Duration: scenario.Duration(time.Second)}
		},
	} {
		if long := expectedTime(cell(change)); long <= small {
			t.Errorf("%s: %v, want more than %v", name, long, small)
		}
	}
}
