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
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
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

// CheckForFleet refuses what a scenario asks for that a fleet does not have. OneClient says that
// one agent has all clients.
func CheckForFleet(s *scenario.Scenario, oneClient bool) error {
	for _, p := range s.Parts {
		linked := func(n scenario.NamedNetwork) bool { return n.Network != (scenario.Network{}) }
		switch {
		case p.Network != (scenario.Network{}) || slices.ContainsFunc(p.Networks, linked):
			return fmt.Errorf("part %s: a fleet's machines have their own network, and no link is emulated between them: leave out `network` and --link", p.Name)
		case len(p.Probes) > 0:
			return fmt.Errorf("part %s: probe %s: probes look on from the machine that the ends run on: leave it out, or measure without a fleet", p.Name, p.Probes[0])
		case p.Load.Model == scenario.Search && !oneClient:
			return fmt.Errorf("part %s: a search is not spread over several machines: choose one, as in --client role=client", p.Name)
		}
	}
	return nil
}

// NeedsNetwork reports whether a scenario asks for networks of its own.
func NeedsNetwork(s *scenario.Scenario) bool {
	return slices.ContainsFunc(s.Parts, func(p scenario.Part) bool { return p.Network != scenario.Network{} })
}

// A Terminal is the standard streams of a program that runs in a user namespace.
type Terminal struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// RunInUserNamespace runs this whole command again in a user namespace, if networks can be made
// there and not here, and returns its exit code. If ran is false and err nil, this process goes
// on. It must be called before anything has an effect.
func RunInUserNamespace(ctx context.Context, streams Terminal) (exitCode int, ran bool, err error) {
	if link.Check() == nil || WhyNoUserNamespace(ctx) != "" {
		return 0, false, nil // if there are none at all, Prepare or the first trial says why
	}
	again, err := InUserNamespace(ctx, os.Args[1:]...)
	if err != nil {
		return 0, false, err
	}
	// The first Ctrl-C is for the other process, which reports what it has. At the second
	// this one ends, and the other with it.
	again.Cancel = func() error { return again.Process.Signal(os.Interrupt) }
	again.Stdin, again.Stdout, again.Stderr = streams.Stdin, streams.Stdout, streams.Stderr
	if err := RunToEnd(again); again.ProcessState == nil || !again.ProcessState.Exited() {
		return 0, false, fmt.Errorf("wirelab in a user namespace: %w", err)
	}
	return again.ProcessState.ExitCode(), true, nil
}

// refuseNetworks fails where everything that a scenario measures is in networks that can be made
// neither here nor in a user namespace.
func refuseNetworks(ctx context.Context, s *scenario.Scenario) error {
	if slices.ContainsFunc(s.Parts, func(p scenario.Part) bool { return p.Network == scenario.Network{} }) {
		return nil
	}
	err := link.Check()
	if err == nil {
		return nil
	}
	return errors.New(cmp.Or(WhyNoUserNamespace(ctx), err.Error()))
}

// InUserNamespace returns a command that starts wirelab's own program in a user namespace. It is
// run by RunToEnd.
func InUserNamespace(ctx context.Context, args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find wirelab's own program, to start it in a user namespace: %w", err)
	}
	program := exec.CommandContext(ctx, path, args...)
	link.InUserNamespace(program)
	return program, nil
}

// RunToEnd runs a program that ends with this one.
func RunToEnd(program *exec.Cmd) error {
	if _, err := host.StartPinned(program, host.Surroundings{}); err != nil {
		return link.ExplainUserNamespace(err)
	}
	return program.Wait()
}

// NetworksCommand is the hidden command that makes a network, or fails and says why.
const NetworksCommand = "networks"

// WhyNoUserNamespace makes a network in a user namespace. It returns "", or why it failed.
func WhyNoUserNamespace(ctx context.Context) string {
	try, err := InUserNamespace(ctx, NetworksCommand)
	if err != nil {
		return err.Error()
	}
	var said bytes.Buffer
	try.Stderr = &said
	if err := RunToEnd(try); err != nil {
		return cmp.Or(strings.TrimPrefix(strings.TrimSpace(said.String()), "wirelab: "), err.Error())
	}
	return ""
}
