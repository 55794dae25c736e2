package link

import (
	"errors"
	"testing"

	"wirelab.dev/internal/machine/host"
)

// How long it takes is the machine's; that there is a figure for each is not.
func TestEachCostIsMeasured(t *testing.T) {
	c, err := MeasureCost(t.Context())
	if errors.Is(err, host.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", c)
	if c.DirectNS <= 0 || c.FramesNS <= 0 {
		t.Errorf("%+v", c)
	}
	if tryNetem() != nil && c.LateP99NS <= 0 {
		t.Errorf("the forwarder does not tell how late it was: %+v", c)
	}
}
