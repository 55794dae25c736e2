// Package plan decides which trials of a scenario are measured on this machine, in which order,
// and for how long.
//
//	name ── Library ──> scenario ── NamedPrograms, AddProbes ──> scenario ── Prepare ──> measurable scenario
//	     ── NewUntil ──> looks ── Trials ──> trials ── TimeEstimate, DescribeOutlook ──> preview
//	                                             └─ LookSeries ──> look after look, until the goal is reached
//
// Replication plans the runs that the claims of several studies need.
//
// This package must not run a trial, or know how wirelab shows a run.
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
	"wirelab.dev/internal/wire/peer"
	"wirelab.dev/internal/wire/sockopt"
	"wirelab.dev/internal/wire/stack/catalog"
)

// A PreparedScenario holds a scenario that this machine can measure, and the programs for it.
type PreparedScenario struct {
	Scenario *scenario.Scenario
	// Rebuilt maps a Go runtime's limit of small objects to the command of a worker that was
	// rebuilt with this limit.
	Rebuilt map[int][]string
	// Peers holds the commands of workers in other languages, by the name of the peer.
	Peers map[string][]string
	// Warnings says which variants are left out, and why.
	Warnings []string
}

// Prepare builds the programs that a scenario's variants need. It leaves out variants that this
// machine cannot measure, each with a warning. It fails if no variant is left. progress gets lines
// about the builds.
func Prepare(ctx context.Context, s *scenario.Scenario, progress io.Writer) (*PreparedScenario, error) {
	if err := checkNetworks(ctx, s); err != nil {
		return nil, err
	}
	p := &PreparedScenario{Scenario: s, Rebuilt: map[int][]string{}, Peers: map[string][]string{}}
	if err := p.checkCongestion(ctx); err != nil {
		return nil, err
	}
	if err := p.buildRuntimes(ctx, progress); err != nil {
		return nil, err
	}
	return p, p.buildPeers(ctx, progress)
}

// removeUnavailable calls try once for each key that the variants need. If try fails, it adds a
// warning and removes all variants that need the key. If no variant is left, it returns the first
// warning as an error.
func removeUnavailable[K comparable](ctx context.Context, p *PreparedScenario, needs func(scenario.Part, scenario.Variant) []K, try func(K) error) error {
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
	p.Scenario = moveToYardsticks(p.Scenario, func(part scenario.Part, v scenario.Variant) bool {
		return slices.ContainsFunc(needs(part, v), func(key K) bool { return lacks[key] })
	})
	if !slices.ContainsFunc(p.Scenario.Parts, func(p scenario.Part) bool { return len(p.Stacks) > 0 }) {
		return errors.New(warnings[0])
	}
	return nil
}

// buildRuntimes builds wirelab with changed Go runtimes, for variants that set smallobject.
func (p *PreparedScenario) buildRuntimes(ctx context.Context, progress io.Writer) error {
	limits := func(_ scenario.Part, v scenario.Variant) []int {
		return slices.DeleteFunc([]int{catalog.SmallObject(v)}, func(limit int) bool { return limit == 0 })
	}
	return removeUnavailable(ctx, p, limits, func(limit int) error {
		path, err := rebuild.Build(ctx, limit, progress)
		if err != nil {
			return fmt.Errorf("variants with smallobject=%dKiB are left out: %w", limit>>10, err)
		}
		p.Rebuilt[limit] = []string{path, "worker"}
		return nil
	})
}

// checkCongestion removes the variants whose congestion control does not work on this machine.
func (p *PreparedScenario) checkCongestion(ctx context.Context) error {
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
	return removeUnavailable(ctx, p, places, func(at place) error {
		check := sockopt.Check
		if at.ownNetwork {
			check = checkInOwnNetwork
		}
		if err := check(at.name); err != nil {
			return fmt.Errorf("variants with cc=%s are left out: %w", at.name, err)
		}
		return nil
	})
}

// checkInOwnNetwork checks a congestion control in a new network. There, more controls may work.
func checkInOwnNetwork(name string) error {
	network, err := link.New(link.Settings{})
	if err != nil {
		return sockopt.Check(name) // the first trial will say why there is no network
	}
	var refused error
	if err := network.InClient(func() { refused = sockopt.Check(name) }); err != nil {
		refused = err
	}
	return errors.Join(refused, network.Close())
}

func (p *PreparedScenario) buildPeers(ctx context.Context, progress io.Writer) error {
	return p.removeWithoutPeer(ctx, func(one peer.Peer) error {
		path, err := one.Build(ctx, progress)
		if err == nil {
			p.Peers[one.Name] = []string{path}
		}
		return err
	})
}

// WithoutMissingPeers leaves out variants whose peers cannot be built on this machine, each peer with
// the warning that Prepare gives. It builds nothing. It fails if no variant is left.
func WithoutMissingPeers(ctx context.Context, s *scenario.Scenario) (left *scenario.Scenario, warnings []string, _ error) {
	p := &PreparedScenario{Scenario: s}
	err := p.removeWithoutPeer(ctx, peer.Peer.CheckBuild)
	return p.Scenario, p.Warnings, err
}

// removeWithoutPeer removes the variants whose peers try refuses.
func (p *PreparedScenario) removeWithoutPeer(ctx context.Context, try func(peer.Peer) error) error {
	names := func(_ scenario.Part, v scenario.Variant) []string { return peerNames(v) }
	return removeUnavailable(ctx, p, names, func(name string) error {
		one, _ := peer.Find(name)
		err := try(one)
		if err == nil {
			return nil
		}
		var gone []string
		for _, part := range p.Scenario.Parts {
			for _, v := range part.Stacks {
				if slices.Contains(peerNames(v), name) {
					gone = lists.AppendNew(gone, v.String())
				}
			}
		}
		return fmt.Errorf("left out: %s: %w", strings.Join(gone, ", "), err)
	})
}

// peerNames returns the names of the peers that run a variant's server or client.
func peerNames(v scenario.Variant) (names []string) {
	for _, peerOf := range []func(scenario.Variant) (peer.Peer, bool){catalog.ServerPeer, catalog.ClientPeer, catalog.Carrier} {
		if p, foreign := peerOf(v); foreign {
			names = append(names, p.Name)
		}
	}
	return names
}

// Variants returns how many variants a list has, and whether Prepare would have to build a program for one.
func Variants(list string) (count int, needsBuild bool, err error) {
	all, err := scenario.ParseVariants(list)
	for _, v := range all {
		if err := catalog.Check(v); err != nil {
			return 0, false, err
		}
		needsBuild = needsBuild || len(peerNames(v)) > 0 || catalog.SmallObject(v) > 0
	}
	return len(all), needsBuild, err
}

// moveToYardsticks moves the variants that gone accepts from Stacks to Yardsticks.
func moveToYardsticks(s *scenario.Scenario, gone func(scenario.Part, scenario.Variant) bool) *scenario.Scenario {
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

// CheckForFleet returns an error if a fleet cannot measure the scenario.
func CheckForFleet(s *scenario.Scenario) error {
	for _, p := range s.Parts {
		linked := func(n scenario.NamedNetwork) bool { return n.Network != (scenario.Network{}) }
		switch {
		case p.Network != (scenario.Network{}) || slices.ContainsFunc(p.Networks, linked):
			return fmt.Errorf("part %s: wirelab emulates no network between a fleet's machines: leave out `network` and --link", p.Name)
		case slices.ContainsFunc(p.Stacks, func(v scenario.Variant) bool { return catalog.CPUs(v) != catalog.OwnCPUs }):
			return fmt.Errorf("part %s: each agent of a fleet has the CPUs of its machine: leave out the option cpus", p.Name)
		case slices.ContainsFunc(p.Probes, needsOneMachine):
			return fmt.Errorf("part %s: the probe %s needs both ends of a call on one machine: leave out this probe, or measure without a fleet", p.Name, p.Probes[slices.IndexFunc(p.Probes, needsOneMachine)])
		}
	}
	return nil
}

// NeedsNetwork reports whether a part of a scenario needs a network that wirelab makes.
func NeedsNetwork(s *scenario.Scenario) bool {
	return slices.ContainsFunc(s.Parts, func(p scenario.Part) bool { return p.Network != scenario.Network{} })
}

// A StandardStreams holds the standard streams for a program that runs in a user namespace.
type StandardStreams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// RunInUserNamespace runs this command again in a user namespace, if only such a process can make
// networks, and returns its exit code. If ran is false and err is nil, this process must continue.
// It must be called before the command has any effect.
func RunInUserNamespace(ctx context.Context, streams StandardStreams) (exitCode int, ran bool, err error) {
	if link.CheckSupport() == nil || WhyNoUserNamespace(ctx) != "" {
		// If networks are impossible, Prepare or the first trial says why.
		return 0, false, nil
	}
	again, err := InUserNamespace(ctx, os.Args[1:]...)
	if err != nil {
		return 0, false, err
	}
	// The first Ctrl-C is sent to the other process, which reports its results. The second ends
	// both processes.
	again.Cancel = func() error { return again.Process.Signal(os.Interrupt) }
	again.Stdin, again.Stdout, again.Stderr = streams.Stdin, streams.Stdout, streams.Stderr
	if err := RunAttached(again); again.ProcessState == nil || !again.ProcessState.Exited() {
		return 0, false, fmt.Errorf("run wirelab in a user namespace: %w", err)
	}
	return again.ProcessState.ExitCode(), true, nil
}

// checkNetworks returns an error if every part needs a network, and this process cannot make one.
func checkNetworks(ctx context.Context, s *scenario.Scenario) error {
	if slices.ContainsFunc(s.Parts, func(p scenario.Part) bool { return p.Network == scenario.Network{} }) {
		return nil
	}
	err := link.CheckSupport()
	if err == nil {
		return nil
	}
	return errors.New(cmp.Or(WhyNoUserNamespace(ctx), err.Error()))
}

// InUserNamespace returns a command that starts this program in a user namespace (see RunAttached).
func InUserNamespace(ctx context.Context, args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find wirelab's own program, to start it in a user namespace: %w", err)
	}
	program := exec.CommandContext(ctx, path, args...)
	link.SetUserNamespace(program)
	return program, nil
}

// RunAttached runs a program and waits. The kernel kills the program if this process ends first.
func RunAttached(program *exec.Cmd) error {
	if _, err := host.StartPinned(program, host.StartOptions{}); err != nil {
		return link.ExplainUserNamespace(err)
	}
	return program.Wait()
}

// NetworksCommand is the hidden command that checks whether this machine can make networks.
const NetworksCommand = "networks"

// WhyNoUserNamespace returns the reason why a user namespace cannot make networks, or "".
func WhyNoUserNamespace(ctx context.Context) string {
	try, err := InUserNamespace(ctx, NetworksCommand)
	if err != nil {
		return err.Error()
	}
	var said bytes.Buffer
	try.Stderr = &said
	if err := RunAttached(try); err != nil {
		return cmp.Or(strings.TrimPrefix(strings.TrimSpace(said.String()), "wirelab: "), err.Error())
	}
	return ""
}
