package probe

import (
	"strings"
	"testing"
)

//go:noinline
func multiply(sum int) int {
	for i := range 1_000_000 {
		sum = sum*31 + i
	}
	return sum
}

// TestProfileFindsWhoBurns samples until a function of its own is found, however slow the
// machine is.
func TestProfileFindsWhoBurns(t *testing.T) {
	for sum := 0; ; {
		profile, err := StartCPUProfile()
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			sum = multiply(sum)
		}
		stacks, err := profile.Stop()
		if err != nil {
			t.Fatal(err)
		}
		for _, stack := range stacks.Stacks {
			functions := stacks.Functions(stack)
			last := len(functions) - 1
			if !strings.HasSuffix(functions[last].Function, "probe.multiply") {
				continue
			}
			if last < 1 || !strings.HasSuffix(functions[last-1].Function, "TestProfileFindsWhoBurns") {
				t.Errorf("multiply is called by %v", functions)
			}
			if stack.Weight != stack.Count*1e9/ProfileSamplesPerSecond || stacks.Unit != "ns" || stacks.Samples < stack.Count {
				t.Errorf("%+v of %d samples in %s", stack, stacks.Samples, stacks.Unit)
			}
			return
		}
	}
}
