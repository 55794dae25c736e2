package catalog

import (
	"fmt"

	"wirelab.dev/internal/data/scenario"
)

// leastQUIC is the smallest MTU that QUIC runs over: datagrams of 1200 bytes (RFC 9000,
// section 14) with the headers of UDP and IPv4. Below it no connection can begin.
const leastQUIC = 1200 + 8 + 20

// CheckNetwork returns an error if a variant's connections cannot cross a part's link.
func CheckNetwork(v scenario.Variant, n scenario.Network) error {
	s, err := Find(v.Stack)
	if err != nil {
		return err
	}
	if s.Info().QUIC && n.MTU != 0 && n.MTU < leastQUIC {
		return fmt.Errorf("variant %s: QUIC takes packets of %d bytes, and the link's mtu is %d: give it a greater one, or leave the variant out", v, leastQUIC, n.MTU)
	}
	return nil
}
