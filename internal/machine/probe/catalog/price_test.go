package catalog

import (
	"errors"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/machine/probe/price"
)

// TestPricesAreMeasured checks that each probe has a price, or a reason for having none.
func TestPricesAreMeasured(t *testing.T) {
	for _, name := range record.Probes {
		if !RunsOutsideWorker(name) {
			continue
		}
		prices, err := price.Measure(func() (probe.Watch, error) { return Start(name) })
		if errors.Is(err, host.ErrUnsupported) {
			t.Log(err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: a system call %.0f + %.0f ns, to another thread and back %.0f + %.0f ns", name,
			prices.Syscall.BareNS, prices.Syscall.AddedNS(), prices.Switch.BareNS, prices.Switch.AddedNS())
		for _, trip := range []price.RoundTrip{prices.Syscall, prices.Switch} {
			if trip.BareNS <= 0 || trip.WatchedNS <= 0 {
				t.Errorf("%s: %+v", name, prices)
			}
		}
	}
}
