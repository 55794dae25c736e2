package rebuild

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestTheToolchainsOwnTable: the rules here are its generator's.
func TestTheToolchainsOwnTable(t *testing.T) {
	theirs, err := os.ReadFile(filepath.Join(runtime.GOROOT(), "src/internal/runtime/gc/sizeclasses.go")) //nolint:staticcheck // the test runs where it was built
	if err != nil {
		t.Skipf("no source of the toolchain: %v", err)
	}
	if !isStandardTable(theirs) {
		t.Errorf("for the usual limit the table is not that of %s", runtime.Version())
	}
	if isStandardTable(append(theirs, "\nvar Another = 1\n"...)) {
		t.Error("another table is taken for the usual one")
	}
}

func TestTablesOfOtherLimits(t *testing.T) {
	for limit, classes := range map[int]int{16 << 10: 60, 32 << 10: 68, 64 << 10: 75} {
		if got := len(sizeClassesUpTo(limit)); got != classes {
			t.Errorf("up to %d bytes there are %d classes, want %d", limit, got, classes)
		}
		last := sizeClassesUpTo(limit)
		if size := last[len(last)-1].size; size != limit {
			t.Errorf("the largest class up to %d bytes has %d", limit, size)
		}
		if _, err := sizeClassTable(limit); err != nil {
			t.Errorf("up to %d bytes: %v", limit, err)
		}
	}
}

func TestSmallObject(t *testing.T) {
	if got := SmallObjectLimit(); got != usualLimit {
		t.Errorf("this program's limit is %d bytes, want %d", got, usualLimit)
	}
}
