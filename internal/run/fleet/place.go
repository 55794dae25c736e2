package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"wirelab.dev/internal/run/fleet/protocol"
)

// checkPlace returns an error unless an agent's servers may listen at the address on its card.
// Clients on other machines dial this address, so an agent alone cannot choose it: the hub must see
// the agent there, or the fleet's owner must have named the address.
func (c *Controller) checkPlace(ctx context.Context, h *leasedAgent) error {
	if h.placed {
		return nil
	}
	at, err := netip.ParseAddr(h.Address)
	if err != nil {
		return fmt.Errorf("the agent %s has no address for servers: its card says %.40q", h.Name, h.Address)
	}
	var known protocol.GateAnswer
	for _, text := range c.credentials.Serve {
		r, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		known.Serve = append(known.Serve, r)
	}
	if !known.MayServe(at) {
		known, err = protocol.AskGate(ctx, c.conn, c.credentials.GateSubject(protocol.PlaceQuestion), protocol.PlaceRequest{Name: h.Name})
		switch {
		case errors.Is(err, protocol.ErrNoGate):
			return fmt.Errorf("the agent %s wants its servers to listen on %s, and nobody else says that this is its address: prepare the NATS server again, with --serve and the range of the agents' addresses", h.Name, at)
		case err != nil:
			return fmt.Errorf("ask where the agent %s is: %w", h.Name, err)
		case !known.MayServe(at):
			return fmt.Errorf("the agent %s wants its servers to listen on %s, but the hub sees it at %v: start the agent with --listen and that address, or make its token with --serve %s", h.Name, at, known.Addresses, at)
		}
	}
	h.placed = true
	return nil
}
