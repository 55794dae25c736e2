package lab

import (
	"context"
	"errors"
	"fmt"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"
)

// surroundings are the network of a trial and the machine's limits in it.
type surroundings struct {
	network *link.Network // nil: the machine's own
	have    host.Limits
	stage   Stage // nil: the ends run on this machine
}

// surround makes the network of the cell.
func (t *trial) surround(ctx context.Context) (*surroundings, error) {
	asked := t.planned.Cell.Network
	if t.lab.Fleet != nil {
		return t.onStage(ctx)
	}
	if asked == (scenario.Network{}) {
		return &surroundings{have: host.ReadLimits()}, nil
	}
	if address := t.target(); address != "" {
		return nil, fmt.Errorf("the server at %s cannot be in the trial's own network: leave out `network`, or do not name a server", address)
	}
	network, err := link.New(settings(asked, t.lab.seed(t.planned.Repeat)))
	if err != nil {
		return nil, fmt.Errorf("make the trial's network: %w", err)
	}
	s := &surroundings{network: network}
	if err := network.InClient(func() { s.have = host.ReadLimits() }); err != nil {
		return nil, errors.Join(err, network.Close())
	}
	return s, nil
}

// listenAddress returns the address that the trial's server listens at.
func (s *surroundings) listenAddress() string {
	switch {
	case s.stage != nil:
		return s.stage.Address()
	case s.network != nil:
		return s.network.Address + ":0"
	}
	return "127.0.0.1:0"
}

// server and client return where the trial's processes are started.
func (s *surroundings) server(l *Lab) host.Surroundings {
	return s.on(l, l.Placement.Server, (*link.Network).EnterServer)
}

func (s *surroundings) client(l *Lab) host.Surroundings {
	return s.on(l, l.Placement.Client, (*link.Network).EnterClient)
}

func (s *surroundings) on(l *Lab, cpus []int, enter func(*link.Network) error) host.Surroundings {
	in := host.Surroundings{CPUs: cpus, Nice: l.Nice}
	if s.network != nil {
		in.Enter = func() error { return enter(s.network) }
	}
	return in
}

// linked stops the link and returns its counts; nil without a link.
func (s *surroundings) linked() *record.Link {
	if s.network == nil {
		return nil
	}
	return s.network.Stop()
}

func (s *surroundings) close() error {
	if s.network == nil {
		return nil
	}
	return s.network.Close()
}
