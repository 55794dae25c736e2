package fleet

import (
	"errors"
	"fmt"
	"net/netip"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/fleet/protocol"
)

// clientAgents selects all agents that say that they are clients.
const clientAgents = "role=client*"

// Want checks which agents of a fleet a run is to be measured on, and fills in the usual ones. It
// returns nil where no fleet is named. ServerGiven says that the server runs already. Errors
// name the flag.
func Want(w record.FleetWanted, serverGiven bool) (*record.FleetWanted, error) {
	if w.Hub == "" && w.TokenFile == "" {
		if w.Server != "" || w.Client != "" {
			return nil, errors.New("--server and --client choose agents of a fleet: name it with --fleet")
		}
		return nil, nil
	}
	if serverGiven && w.Server != "" {
		return nil, fmt.Errorf("--server %s: the server is given, and no agent has one: leave it out", w.Server)
	}
	if !serverGiven && w.Server == "" {
		w.Server = "role=server"
	}
	if w.Client == "" {
		w.Client = clientAgents
	}
	for flag, text := range map[string]string{"--server": w.Server, "--client": w.Client} {
		if text == "" {
			continue
		}
		s, err := protocol.ParseSelector(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		if flag == "--server" && s.Count != 1 {
			return nil, fmt.Errorf("--server %s: want one agent", text)
		}
	}
	return &w, nil
}

// PlanFor returns the plan of a controller of the wanted agents.
func PlanFor(w *record.FleetWanted) (plan Plan, err error) {
	if w.Server != "" {
		server, err := protocol.ParseSelector(w.Server)
		if err != nil {
			return plan, err
		}
		plan.Server = &server
	}
	plan.Client, err = protocol.ParseSelector(w.Client)
	return plan, err
}

// CheckReach refuses servers, at targets, that the agent elsewhere would look for on its own
// machine; "" names no agent.
func CheckReach(elsewhere string, targets map[string]string) error {
	if elsewhere == "" {
		return nil
	}
	for _, address := range targets {
		at, err := netip.ParseAddrPort(address)
		if err == nil && at.Addr().IsLoopback() {
			return fmt.Errorf("the server at %s is on this machine's loopback, and the agent %s on another machine would look for it on its own: name an address that all reach", address, elsewhere)
		}
	}
	return nil
}
