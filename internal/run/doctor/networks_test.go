package doctor

import (
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"
)

func TestDoctorSaysWhatLinksCost(t *testing.T) {
	const µs = time.Microsecond
	for _, test := range []struct {
		cost   link.Cost
		status host.Status
		want   []string
	}{
		{link.Cost{DirectNS: 25 * µs, FramesNS: 90 * µs, LateP50NS: 5 * µs, LateP99NS: 50 * µs}, host.OK, []string{"adds 65 µs to a round trip", "50 µs at P99"}},
		{link.Cost{DirectNS: 25 * µs, FramesNS: 90 * µs, LateP50NS: 5 * µs, LateP99NS: 400 * µs}, host.Limited, []string{"delays of 4 ms or more"}},
		{link.Cost{DirectNS: 25 * µs, FramesNS: 90 * µs}, host.OK, []string{"adds 65 µs"}},
	} {
		f := judgeCost(test.cost)
		text := f.Detail + "\n" + f.Remedy
		for _, want := range test.want {
			if !strings.Contains(text, want) {
				t.Errorf("%+v: %s, want %q", test.cost, text, want)
			}
		}
		if f.Status != test.status || (f.Status == host.OK) != (f.Remedy == "") || strings.Contains(text, "late") != (test.cost.LateP99NS > 0) {
			t.Errorf("%+v: %+v", test.cost, f)
		}
	}
}
