package catalog

import (
	"strings"
	"testing"

	"wirelab.dev/internal/data/scenario"
)

func TestQUICTakesAnMTU(t *testing.T) {
	for _, test := range []struct {
		variant string
		mtu     int
		refused bool
	}{
		{"h3", 0, false},
		{"h3", 1228, false},
		{"h3", 1227, true},
		{"grpc-h3", 576, true},
		{"grpc", 576, false},
	} {
		err := CheckNetwork(variant(t, test.variant), scenario.Network{MTU: test.mtu})
		if (err != nil) != test.refused || err != nil && !strings.Contains(err.Error(), "packets of 1228 bytes") {
			t.Errorf("%s with an MTU of %d: %v", test.variant, test.mtu, err)
		}
	}
}
