package host

import (
	"errors"
	"testing"
	"time"
)

func TestNeighbourRecoversKnownActivity(t *testing.T) {
	start := time.Now()
	before, err := readActivity(machine(map[string]string{
		"proc/stat":         "cpu  1000 10 500 8000 100 20 30 40 600 0\ncpu0 1 2 3\n",
		"proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
	}), start)
	if err != nil {
		t.Fatal(err)
	}
	// Two CPUs for two seconds: 3.6 s of work (2.5 s of it by the caller),
	// 0.2 s idle (half of it waiting for a disk), 0.2 s stolen.
	after, err := readActivity(machine(map[string]string{
		"proc/stat":         "cpu  1200 20 600 8010 110 40 60 60 700 0\n",
		"proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n",
	}), start.Add(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	got := after.Since(before, 2500*time.Millisecond)
	if got.StolenShare != 0.05 || got.OthersBusyShare != 0.275 {
		t.Errorf("shares %v, %v; want 0.05, 0.275", got.StolenShare, got.OthersBusyShare)
	}
	if got.PressureShare == nil || *got.PressureShare != 0.25 {
		t.Errorf("pressure %v, want 0.25", got.PressureShare)
	}
	if own := after.Since(before, time.Hour); own.OthersBusyShare != 0 {
		t.Errorf("others were busy for %v of the time, though all was ours", own.OthersBusyShare)
	}
}

func TestSnapshotWithoutPressure(t *testing.T) {
	root := machine(map[string]string{"proc/stat": "cpu  1 1 1 1 1 1 1 1 1 1\n"})
	activity, err := readActivity(root, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if got := activity.Since(activity, 0); got.PressureShare != nil || got.StolenShare != 0 {
		t.Errorf("got %+v, want neither pressure nor a share of no time", got)
	}
}

func TestSnapshotRefuses(t *testing.T) {
	if _, err := readActivity(machine(nil), time.Now()); !errors.Is(err, ErrUnsupported) {
		t.Errorf("without /proc/stat: %v, want ErrUnsupported", err)
	}
	if _, err := readActivity(denied{}, time.Now()); err == nil || errors.Is(err, ErrUnsupported) {
		t.Errorf("unreadable /proc/stat: %v, want a failure", err)
	}
	for _, stat := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu a 2 3 4 5 6 7 8"} {
		if _, err := readActivity(machine(map[string]string{"proc/stat": stat}), time.Now()); err == nil {
			t.Errorf("/proc/stat %q passed", stat)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("cpu  1000 10 500 8000 100 20 30 40 600 0\ncpu0 1 2 3")
	f.Fuzz(func(t *testing.T, stat string) {
		if activity, err := parseStat(stat); err != nil && activity != (Activity{}) {
			t.Errorf("both %+v and %v", activity, err)
		}
	})
}

func FuzzParsePressure(f *testing.F) {
	f.Add("some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000")
	f.Fuzz(func(t *testing.T, pressure string) {
		if stalled, ok := parsePressure(pressure); !ok && stalled != 0 {
			t.Errorf("refused, yet %v", stalled)
		}
	})
}
