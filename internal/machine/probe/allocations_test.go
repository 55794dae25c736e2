package probe

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
)

// The program of TestAllocations: sampling must be on from a process's beginning.
const samplingProgram = "WIRELAB_TEST_SAMPLING"

//go:noinline
func allocateMuch() []byte { return make([]byte, 16<<10) }

//go:noinline
func allocateOften() *[6]uint64 { return new([6]uint64) }

var kept []any

// TestStackOfTheRuntime checks that a stack without a function of the program has a name.
func TestStackOfTheRuntime(t *testing.T) {
	var stack callers
	if runtime.Callers(0, stack[:1]) != 1 { // runtime.Callers itself
		t.Fatal("there is no caller")
	}
	if got := functionNames(stack); len(got) != 1 || got[0] != "runtime" {
		t.Errorf("functionsOf = %q, want one that is named runtime", got)
	}
}

// TestAllocations recovers what was allocated, by whom, from samples.
func TestAllocations(t *testing.T) {
	if os.Getenv(samplingProgram) == "" {
		again := exec.Command(os.Args[0], "-test.run=^TestAllocations$", "-test.v")
		again.Env = append(os.Environ(), samplingProgram+"=1")
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	SampleAllocations(true)
	for range 100 {
		kept = append(kept, allocateMuch()) // before the watch: not counted
	}
	watch := WatchAllocations()
	const much, often = 2_000, 200_000
	for range much {
		kept = append(kept[:0], allocateMuch())
	}
	for range often {
		kept = append(kept[:0], allocateOften())
	}
	got := watch.Stop()
	runtime.KeepAlive(kept)

	expect := func(name string, bytes, objects float64) {
		var sum record.AllocationStack
		for _, s := range got.Stacks {
			if last := s.Functions[len(s.Functions)-1]; strings.HasSuffix(last, "."+name) {
				sum.Bytes += s.Bytes
				sum.Objects += s.Objects
			}
		}
		near := func(figure int64, want float64) bool {
			return float64(figure) > 0.9*want && float64(figure) < 1.1*want
		}
		if !near(sum.Bytes, bytes) || !near(sum.Objects, objects) {
			t.Errorf("%s: %d bytes in %d objects, want %.0f in %.0f", name, sum.Bytes, sum.Objects, bytes, objects)
		}
	}
	expect("allocateMuch", much*(16<<10), much)
	expect("allocateOften", often*48, often)
	if share := float64(got.Bytes) / (much*(16<<10) + often*48); share < 0.9 || share > 1.1 {
		t.Errorf("%d bytes in all", got.Bytes)
	}
	if first := got.Stacks[0].Functions[0]; first != "testing.tRunner" {
		t.Errorf("a stack begins with %s", first)
	}
}
