package probe

import (
	"math"
	"reflect"
	"testing"
	"time"
)

// numbered returns a Usage whose every figure differs.
func numbered() Usage {
	var usage Usage
	for i, column := range columns {
		*column.of(&usage) = int64(1000 + i)
	}
	return usage
}

// A figure that is added to Usage and forgotten in columns would silently
// vanish from every series.
func TestColumnsCoverEveryFigure(t *testing.T) {
	usage := numbered()
	var zero func(value reflect.Value, path string) int
	zero = func(value reflect.Value, path string) int {
		figures := 0
		switch value.Kind() {
		case reflect.Struct:
			for i := range value.NumField() {
				figures += zero(value.Field(i), path+"."+value.Type().Field(i).Name)
			}
		case reflect.Array:
			for i := range value.Len() {
				figures += zero(value.Index(i), path)
			}
		case reflect.Int64:
			if path == "Usage.AtNS" {
				return 0
			}
			if value.Int() == 0 {
				t.Errorf("%s is in no column", path)
			}
			return 1
		default:
			t.Errorf("%s is a %s, which no column can hold", path, value.Kind())
		}
		return figures
	}
	if figures := zero(reflect.ValueOf(usage), "Usage"); figures != len(columns) {
		t.Errorf("%d figures, %d columns", figures, len(columns))
	}
	names := map[string]bool{}
	for _, column := range columns {
		if names[column.name] {
			t.Errorf("two columns %s", column.name)
		}
		names[column.name] = true
	}
}

func TestSinceSubtractsCountersOnly(t *testing.T) {
	earlier := Usage{AtNS: 10, UserNS: 100, SystemNS: 50, MaxRSSBytes: 7, MinorFaults: 3, Go: GoUsage{Goroutines: 9, GCCycles: 2}}
	later := Usage{AtNS: 20, UserNS: 130, SystemNS: 70, MaxRSSBytes: 8, MinorFaults: 5, Go: GoUsage{Goroutines: 4, GCCycles: 5}}
	want := Usage{AtNS: 20, UserNS: 30, SystemNS: 20, MaxRSSBytes: 8, MinorFaults: 2, Go: GoUsage{Goroutines: 4, GCCycles: 3}}
	got := later.Since(earlier)
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got.CPU() != 50 {
		t.Errorf("CPU %v, want 50ns", got.CPU())
	}
}

func TestWaitBucketsTile(t *testing.T) {
	for bucket := range waitBuckets {
		low := waitBucketStart(bucket)
		if got := waitBucketOf(low); got != bucket {
			t.Errorf("bound %v of bucket %d lies in %d", low, bucket, got)
		}
		if bucket > 0 && waitBucketOf(low-1) != bucket-1 {
			t.Errorf("just under %v lies in %d, not in %d", low, waitBucketOf(low-1), bucket-1)
		}
	}
	if got := waitBucketOf(math.MaxInt64); got != waitBuckets-1 {
		t.Errorf("the longest wait lies in %d", got)
	}
	if low, high := waitBucketStart(1), waitBucketStart(waitBuckets-1); low != 256 || high != 256*(1<<24) {
		t.Errorf("bounds run from %v to %v, want 256ns to 4.29s", low, high)
	}
}

func TestWaitsQuantile(t *testing.T) {
	var waits Waits
	if _, ok := waits.Quantile(0.5); ok {
		t.Error("a quantile of nothing")
	}
	waits[waitBucketOf(10*time.Microsecond)] = 98
	waits[waitBucketOf(5*time.Millisecond)] = 2
	for q, want := range map[float64]time.Duration{0.5: 10 * time.Microsecond, 0.99: 5 * time.Millisecond} {
		got, ok := waits.Quantile(q)
		if !ok || math.Abs(float64(got-want)) > 0.25*float64(want) {
			t.Errorf("quantile %v = %v, %v; want %v within a quarter", q, got, ok, want)
		}
	}
	if low, _ := waits.Quantile(0); low > 10*time.Microsecond {
		t.Errorf("least wait %v", low)
	}
	waits[waitBuckets-1] = 100
	if top, _ := waits.Quantile(1); top != waitBucketStart(waitBuckets-1) {
		t.Errorf("beyond the last bound: %v", top)
	}
	if waits.Total() != 200 {
		t.Errorf("total %d, want 200", waits.Total())
	}
}

// What processes used together is the sum of each figure; what is of the machine, or of each
// by itself, is not.
func TestPlusSumsEveryFigure(t *testing.T) {
	window := Window{Usage: numbered(), Most: Gauges{1, 2, 3, 4, 5, 6}, StoppedNS: 7}
	sum := window.Plus(window)
	for _, column := range columns {
		want := 2 * *column.of(&window.Usage)
		if column.name == "suspended_ns" || column.name == "gc_percent" {
			want /= 2
		}
		if got := *column.of(&sum.Usage); got != want {
			t.Errorf("%s is %d, want %d", column.name, got, want)
		}
	}
	if want := (Gauges{2, 4, 6, 8, 10, 12}); sum.Most != want || sum.StoppedNS != 7 {
		t.Errorf("most %+v, stopped for %d; want %+v, 7", sum.Most, sum.StoppedNS, want)
	}
	other := window
	other.Go.GCPercent, other.StoppedNS = 50, 9
	if sum := window.Plus(other); sum.Go.GCPercent != 0 || sum.StoppedNS != 9 {
		t.Errorf("GOGC %d, stopped for %d; want none known, 9", sum.Go.GCPercent, sum.StoppedNS)
	}
}
