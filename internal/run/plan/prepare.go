// Package plan says what of a scenario is measured on this machine, in which order and for how
// long.
//
//	name ── Library ──> scenario ── Named, AddProbes ──> scenario ── Prepare ──> what can be measured here
//	     ── Until ──> looks ── Trials ──> trials ── Estimate, Outlook ──> what they take, what they could find
//	                                             └─ Course ──> look after look, until the goal is reached
//
// Replication plans what the claims of several studies need.
//
// This package must not carry out a trial, nor know how a run is shown.
package plan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/link"
	"wirelab.dev/internal/machine/rebuild"
	"wirelab.dev/internal/wire/congestion"
	"wirelab.dev/internal/wire/peer"
	"wirelab.dev/internal/wire/stack/catalog"
)

// A Prepared holds the part of a scenario that this machine can measure, and its programs.
type Prepared struct {
	Scenario *scenario.Scenario
	// Rebuilt are workers whose Go runtime has another limit of small objects, by that limit.
	Rebuilt map[int][]string
	// Peers are workers in other languages, by their names.
	Peers map[string][]string
	// Warnings say which variants are left out, and why.
	Warnings []string
}

// Prepare builds the programs that a scenario's variants need, and leaves out the variants that
// this machine cannot measure, with a warning each. It fails where nothing is left. The builds
// say on progress how they go.
func Prepare(ctx context.Context, s *scenario.Scenario, progress io.Writer) (*Prepared, error) {
	if err := refuseNetworks(ctx, s); err != nil {
		return nil, err
	}
	p := &Prepared{Scenario: s, Rebuilt: map[int][]string{}, Peers: map[string][]string{}}
	for _, step := range []func() error{
		p.checkCongestion,
		func() error { return p.rebuild(ctx, progress) },
		func() error { return p.buildPeers(ctx, progress) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// variants calls do with each variant of the scenario and its part.
func (p *Prepared) variants(do func(scenario.Part, scenario.Variant) error) error {
	for _, part := range p.Scenario.Parts {
		for _, v := range part.Stacks {
			if err := do(part, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// rebuild builds the programs of variants whose runtime has another limit of small objects.
func (p *Prepared) rebuild(ctx context.Context, progress io.Writer) error {
	var warnings []string
	err := p.variants(func(_ scenario.Part, v scenario.Variant) error {
		limit := catalog.SmallObject(v)
		if _, tried := p.Rebuilt[limit]; limit == 0 || tried {
			return nil
		}
		path, err := rebuild.Build(ctx, limit, progress)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			p.Rebuilt[limit] = nil
			warnings = append(warnings, fmt.Sprintf("smallobject=%dKiB is left out: %v", limit>>10, err))
			return nil
		}
		p.Rebuilt[limit] = []string{path, "worker"}
		return nil
	})
	if err != nil {
		return err
	}
	return p.leaveOut(warnings, func(_ scenario.Part, v scenario.Variant) bool {
		limit := catalog.SmallObject(v)
		return limit != 0 && p.Rebuilt[limit] == nil
	})
}

// checkCongestion leaves out the variants whose congestion control their processes cannot have.
func (p *Prepared) checkCongestion() error {
	type place struct {
		name       string
		ownNetwork bool
	}
	placeOf := func(p scenario.Part, v scenario.Variant) place {
		return place{catalog.Congestion(v), p.Network != scenario.Network{}}
	}
	var warnings []string
	can := map[place]bool{}
	_ = p.variants(func(part scenario.Part, v scenario.Variant) error {
		at := placeOf(part, v)
		if _, tried := can[at]; tried || at.name == "" {
			return nil
		}
		try := congestion.Check
		if at.ownNetwork {
			try = checkInOwnNetwork
		}
		err := try(at.name)
		if can[at] = err == nil; err != nil {
			warnings = append(warnings, fmt.Sprintf("cc=%s is left out: %v", at.name, err))
		}
		return nil
	})
	return p.leaveOut(slices.Compact(warnings), func(p scenario.Part, v scenario.Variant) bool {
		at := placeOf(p, v)
		return at.name != "" && !can[at]
	})
}

// checkInOwnNetwork checks a congestion control in a network of its own: whoever made it may use
// every congestion control there, also an ordinary user.
func checkInOwnNetwork(name string) error {
	network, err := link.New(link.Settings{})
	if err != nil {
		return congestion.Check(name) // the first trial says why there is no network
	}
	var refused error
	if err := network.InClient(func() { refused = congestion.Check(name) }); err != nil {
		refused = err
	}
	return errors.Join(refused, network.Close())
}

// buildPeers builds the peers that variants name.
func (p *Prepared) buildPeers(ctx context.Context, progress io.Writer) error {
	var warnings []string
	err := p.variants(func(_ scenario.Part, v scenario.Variant) error {
		for _, one := range peersOf(v) {
			if _, tried := p.Peers[one.Name]; tried {
				continue
			}
			path, err := one.Build(ctx, progress)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				p.Peers[one.Name] = nil
				warnings = append(warnings, fmt.Sprintf("the peer %s is left out: %v", one.Name, err))
				continue
			}
			p.Peers[one.Name] = []string{path}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return p.leaveOut(warnings, func(_ scenario.Part, v scenario.Variant) bool {
		return slices.ContainsFunc(peersOf(v), func(one peer.Peer) bool { return p.Peers[one.Name] == nil })
	})
}

// peersOf returns the peers that play an end of a variant.
func peersOf(v scenario.Variant) (all []peer.Peer) {
	if p, foreign := catalog.ServerPeer(v); foreign {
		all = append(all, p)
	}
	if p, foreign := catalog.ClientPeer(v); foreign {
		all = append(all, p)
	}
	return all
}

// leaveOut takes the variants that are missing here out of the scenario. If none is left, it
// returns the first warning as an error.
func (p *Prepared) leaveOut(warnings []string, missing func(scenario.Part, scenario.Variant) bool) error {
	if len(warnings) == 0 {
		return nil
	}
	p.Warnings = append(p.Warnings, warnings...)
	p.Scenario = withoutVariants(p.Scenario, missing)
	if !slices.ContainsFunc(p.Scenario.Parts, func(p scenario.Part) bool { return len(p.Stacks) > 0 }) {
		return errors.New(warnings[0])
	}
	return nil
}

// withoutVariants moves variants to the yardsticks, which are measured only where they are named.
func withoutVariants(s *scenario.Scenario, gone func(scenario.Part, scenario.Variant) bool) *scenario.Scenario {
	without := new(*s)
	without.Parts = slices.Clone(s.Parts)
	for i, p := range s.Parts {
		goes := func(v scenario.Variant) bool { return gone(p, v) }
		stays := func(v scenario.Variant) bool { return !gone(p, v) }
		without.Parts[i].Stacks = slices.DeleteFunc(slices.Clone(p.Stacks), goes)
		without.Parts[i].Yardsticks = slices.Concat(p.Yardsticks, slices.DeleteFunc(slices.Clone(p.Stacks), stays))
	}
	return without
}
