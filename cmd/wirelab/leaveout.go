package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/link"
	"wirelab.dev/internal/machine/rebuild"
	"wirelab.dev/internal/wire/congestion"
	"wirelab.dev/internal/wire/peer"
	"wirelab.dev/internal/wire/stack/catalog"
)

// withRebuilt builds the programs of variants whose runtime has another limit of small
// objects. Those that cannot be built are left out, with a warning each.
func (a *app) withRebuilt(ctx context.Context, s *scenario.Scenario) (_ *scenario.Scenario, programs map[int][]string, warnings []string, _ error) {
	programs = map[int][]string{}
	for _, part := range s.Parts {
		for _, v := range part.Stacks {
			limit := catalog.SmallObject(v)
			if _, tried := programs[limit]; limit == 0 || tried {
				continue
			}
			path, err := rebuild.Build(ctx, limit, a.stderr)
			if ctx.Err() != nil {
				return nil, nil, nil, context.Cause(ctx)
			}
			if err != nil {
				programs[limit] = nil
				warnings = append(warnings, fmt.Sprintf("smallobject=%dKiB is left out: %v", limit>>10, err))
				continue
			}
			programs[limit] = []string{path, "worker"}
		}
	}
	s, err := leaveOut(s, warnings, func(_ scenario.Part, v scenario.Variant) bool {
		limit := catalog.SmallObject(v)
		return limit != 0 && programs[limit] == nil
	})
	return s, programs, warnings, err
}

// withCongestion leaves out the variants whose congestion control their processes cannot
// have, with a warning for each of those.
func withCongestion(s *scenario.Scenario) (_ *scenario.Scenario, warnings []string, _ error) {
	type place struct {
		name       string
		ownNetwork bool
	}
	of := func(p scenario.Part, v scenario.Variant) place {
		return place{catalog.Congestion(v), p.Network != scenario.Network{}}
	}
	can := map[place]bool{}
	for _, part := range s.Parts {
		for _, v := range part.Stacks {
			at := of(part, v)
			if _, tried := can[at]; tried || at.name == "" {
				continue
			}
			try := congestion.Check
			if at.ownNetwork {
				try = checkInOwnNetwork
			}
			err := try(at.name)
			if can[at] = err == nil; err != nil {
				warnings = append(warnings, fmt.Sprintf("cc=%s is left out: %v", at.name, err))
			}
		}
	}
	s, err := leaveOut(s, warnings, func(p scenario.Part, v scenario.Variant) bool {
		at := of(p, v)
		return at.name != "" && !can[at]
	})
	return s, slices.Compact(warnings), err
}

// checkInOwnNetwork is congestion.Check in a network of its own: who made it may have every
// congestion control there, an ordinary user too.
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

// withPeers builds the peers that variants name. Those that cannot be built are left out,
// with a warning each.
func (a *app) withPeers(ctx context.Context, s *scenario.Scenario) (_ *scenario.Scenario, programs map[string][]string, warnings []string, _ error) {
	programs = map[string][]string{}
	for _, part := range s.Parts {
		for _, v := range part.Stacks {
			for _, p := range peersOf(v) {
				if _, tried := programs[p.Name]; tried {
					continue
				}
				path, err := p.Build(ctx, a.stderr)
				if ctx.Err() != nil {
					return nil, nil, nil, context.Cause(ctx)
				}
				if err != nil {
					programs[p.Name] = nil
					warnings = append(warnings, fmt.Sprintf("the peer %s is left out: %v", p.Name, err))
					continue
				}
				programs[p.Name] = []string{path}
			}
		}
	}
	s, err := leaveOut(s, warnings, func(_ scenario.Part, v scenario.Variant) bool {
		return slices.ContainsFunc(peersOf(v), func(p peer.Peer) bool { return programs[p.Name] == nil })
	})
	return s, programs, warnings, err
}

// peersOf are the peers that play an end of a variant.
func peersOf(v scenario.Variant) (all []peer.Peer) {
	if p, foreign := catalog.ServerPeer(v); foreign {
		all = append(all, p)
	}
	if p, foreign := catalog.ClientPeer(v); foreign {
		all = append(all, p)
	}
	return all
}

// leaveOut returns the scenario without the variants that are missing here. If no others
// are left, it is an error, which says why.
func leaveOut(s *scenario.Scenario, why []string, missing func(scenario.Part, scenario.Variant) bool) (*scenario.Scenario, error) {
	if len(why) == 0 {
		return s, nil
	}
	s = withoutVariants(s, missing)
	if !slices.ContainsFunc(s.Parts, func(p scenario.Part) bool { return len(p.Stacks) > 0 }) {
		return nil, errors.New(why[0])
	}
	return s, nil
}

// withoutVariants moves variants to those that nobody asked for.
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

// smallObjectCommand is how a program that was rebuilt is checked.
func (a *app) smallObjectCommand() *cobra.Command {
	return a.partCommand("small-object", "Print the largest size that this program's allocator takes for a small object", func(_ context.Context, _ io.Reader, out io.Writer) error {
		_, err := fmt.Fprintln(out, rebuild.SmallObject())
		return err
	})
}
