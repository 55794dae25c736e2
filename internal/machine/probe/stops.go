package probe

import (
	"fmt"
	"os"

	"wirelab.dev/internal/machine/host"
)

// WithStops adds to a source the time for which all processes of the control groups or of the
// machine were stopped: by a used-up CPU quota, or by suspension. It costs 1 µs per reading, and
// 2 µs for each group that can have a quota.
func WithStops(source Source) Source {
	throttle := host.OpenThrottle(os.Getpid())
	return func() (Usage, error) {
		usage, err := source()
		if err != nil {
			return usage, err
		}
		throttled, err := throttle.Read()
		if err != nil {
			return usage, fmt.Errorf("read usage: %w", err)
		}
		usage.ThrottledNS, usage.ThrottledPeriods = throttled.TimeNS, throttled.Periods
		usage.SuspendedNS, err = suspended()
		return usage, err
	}
}
