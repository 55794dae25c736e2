// Package plan decides which trials of a scenario are measured on this machine, in which order,
// and for how long.
//
//	name ── Library ──> scenario ── Named, AddProbes ──> scenario ── Prepare ──> what can be measured here
//	     ── Until ──> looks ── Trials ──> trials ── Estimate, Outlook ──> what they take, what they could find
//	                                             └─ Course ──> look after look, until the goal is reached
//
// Replication plans the runs that the claims of several studies need.
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

	"wirelab.dev/internal/base/lists"
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
	// Rebuilt maps a limit of small objects to the worker whose Go runtime was rebuilt with it.
	Rebuilt map[int][]string
	// Peers maps names of peers to the commands of workers in other languages.
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
	if err := p.checkCongestion(ctx); err != nil {
		return nil, err
	}
	if err := p.rebuild(ctx, progress); err != nil {
		return nil, err
	}
	return p, p.buildPeers(ctx, progress)
}

// leaveOut tries each key that a variant needs once, and removes from the scenario the variants
// with a failed key, with one warning each. If none is left, it returns the first as an error.
func leaveOut[K comparable](ctx context.Context, p *Prepared, needs func(scenario.Part, scenario.Variant) []K, try func(K) error) error {
	var warnings []string
	lacks := map[K]bool{}
	for _, part := range p.Scenario.Parts {
		for _, v := range part.Stacks {
			for _, key := range needs(part, v) {
				if _, tried := lacks[key]; tried {
					continue
				}
				err := try(key)
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if lacks[key] = err != nil; err != nil {
					warnings = lists.AppendNew(warnings, err.Error())
				}
			}
		}
	}
	if len(warnings) == 0 {
		return nil
	}
	p.Warnings = append(p.Warnings, warnings...)
	p.Scenario = withoutVariants(p.Scenario, func(part scenario.Part, v scenario.Variant) bool {
		return slices.ContainsFunc(needs(part, v), func(key K) bool { return lacks[key] })
	})
	if !slices.ContainsFunc(p.Scenario.Parts, func(p scenario.Part) bool { return len(p.Stacks) > 0 }) {
		return errors.New(warnings[0])
	}
	return nil
}

// rebuild builds the programs of variants whose runtime has another limit of small objects.
func (p *Prepared) rebuild(ctx context.Context, progress io.Writer) error {
	limits := func(_ scenario.Part, v scenario.Variant) []int {
		return slices.DeleteFunc([]int{catalog.SmallObject(v)}, func(limit int) bool { return limit == 0 })
	}
	return leaveOut(ctx, p, limits, func(limit int) error {
		path, err := rebuild.Build(ctx, limit, progress)
		if err != nil {
			return fmt.Errorf("smallobject=%dKiB is left out: %w", limit>>10, err)
		}
		p.Rebuilt[limit] = []string{path, "worker"}
		return nil
	})
}

// checkCongestion leaves out the variants whose congestion control is not available here.
func (p *Prepared) checkCongestion(ctx context.Context) error {
	type place struct {
		name       string
		ownNetwork bool
	}
	places := func(p scenario.Part, v scenario.Variant) []place {
		if name := catalog.Congestion(v); name != "" {
			return []place{{name, p.Network != scenario.Network{}}}
		}
		return nil
	}
	return leaveOut(ctx, p, places, func(at place) error {
		check := congestion.Check
		if at.ownNetwork {
			check = checkInOwnNetwork
		}
		if err := check(at.name); err != nil {
			return fmt.Errorf("cc=%s is left out: %w", at.name, err)
		}
		return nil
	})
}

// checkInOwnNetwork checks in a new network, whose maker may use every congestion control.
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

func (p *Prepared) buildPeers(ctx context.Context, progress io.Writer) error {
	names := func(_ scenario.Part, v scenario.Variant) []string { return peerNames(v) }
	return leaveOut(ctx, p, names, func(name string) error {
		one, _ := peer.Find(name)
		path, err := one.Build(ctx, progress)
		if err != nil {
			return fmt.Errorf("the peer %s is left out: %w", name, err)
		}
		p.Peers[name] = []string{path}
		return nil
	})
}

// peerNames names the peers that play an end of a variant.
func peerNames(v scenario.Variant) (names []string) {
	for _, peerOf := range []func(scenario.Variant) (peer.Peer, bool){catalog.ServerPeer, catalog.ClientPeer} {
		if p, foreign := peerOf(v); foreign {
			names = append(names, p.Name)
		}
	}
	return names
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

// CheckForFleet refuses what a fleet cannot do. OneClient says that one agent has all clients.
func CheckForFleet(s *scenario.Scenario, oneClient bool) error {
	for _, p := range s.Parts {
		linked := func(n scenario.NamedNetwork) bool { return n.Network != (scenario.Network{}) }
		switch {
		case p.Network != (scenario.Network{}) || slices.ContainsFunc(p.Networks, linked):
			return fmt.Errorf("part %s: a fleet's machines have their own network, and no link is emulated between them: leave out `network` and --link", p.Name)
		case len(p.Probes) > 0:
			return fmt.Errorf("part %s: probe %s: probes observe only the machine that they run on: leave it out, or measure without a fleet", p.Name, p.Probes[0])
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

// A Terminal holds the standard streams of a program that runs in a user namespace.
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

// refuseNetworks fails where all parts need networks, which cannot be made here.
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
