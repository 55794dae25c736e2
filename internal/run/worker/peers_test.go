package worker_test

import (
	"os"
	"slices"
	"testing"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/run/worker/conform"
	"wirelab.dev/internal/wire/peer"
	"wirelab.dev/internal/wire/stack/catalog"
)

func TestPeersKeepTheContract(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds programs in other languages for minutes (-short)")
	}
	for _, p := range peer.All() {
		t.Run(p.Name, func(t *testing.T) {
			program := built(t, p)
			able, err := conform.AskCapabilities(t.Context(), []string{program})
			if err != nil {
				t.Fatal(err)
			}
			checkDeclared(t, p, able)
			for _, wire := range p.Wires {
				for variant, ends := range variants(wire) {
					t.Run(variant, func(t *testing.T) {
						t.Parallel() // nothing is measured
						reference := self(t, "worker")
						if p.OwnEngine { // no other program has its stacks
							reference = []string{program}
						}
						holdAgainstContract(t, conform.Peer{
							Command: []string{program}, Reference: reference, Stack: variant,
							Server: ends.Includes(peer.Server), Client: ends.Includes(peer.Client), Able: able,
						})
					})
				}
			}
		})
	}
}

// built is the peer's program, or skips with what is missing.
func built(t *testing.T, p peer.Peer) string {
	t.Helper()
	if lacks := p.Missing(); lacks != "" {
		t.Skip(lacks)
	}
	program, err := p.Build(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// variants are the stack as it comes, and with each value of each of the peer's options that
// goes with whatever else there is, and the ends that have them.
func variants(w peer.Wire) map[string]peer.End {
	all := map[string]peer.End{w.Stack: w.Ends}
	for _, o := range w.Options {
		for _, value := range o.Values {
			if value != o.Default && o.Alone {
				all[w.Stack+":"+o.Key+"="+value] = o.End
			}
		}
	}
	return all
}

// What wirelab knows of a peer is what the peer says.
func checkDeclared(t *testing.T, p peer.Peer, able *worker.Capabilities) {
	t.Helper()
	for _, wire := range p.Wires {
		keys := []string{}
		for _, o := range wire.Options {
			keys = append(keys, o.Key)
		}
		if p.OwnEngine {
			keys = optionKeys(t, wire.Stack)
		}
		told, speaks := able.Stacks[wire.Stack]
		slices.Sort(keys)
		slices.Sort(told)
		if !speaks || !slices.Equal(keys, told) {
			t.Errorf("%s has the options %q by wirelab, and %q by itself (%v)", wire.Stack, keys, told, speaks)
		}
		for _, workload := range wire.Workloads {
			if !slices.Contains(able.Workloads, workload) {
				t.Errorf("%s: it does not say that it has the workload %s", wire.Stack, workload)
			}
		}
		for _, mode := range wire.Connections {
			if !slices.Contains(able.Connections, mode) {
				t.Errorf("%s: it does not say that it has the mode %s", wire.Stack, mode)
			}
		}
	}
	if p.OwnEngine {
		p.Controls = []string{"end", "pause", "resume", "go", "open", "slices", "step"}
	}
	if told := lists.Map(able.Controls, func(c worker.Control) string { return string(c) }); !slices.Equal(told, p.Controls) {
		t.Errorf("it obeys the controls %q by wirelab, and %q by itself", p.Controls, told)
	}
	if len(able.Stacks) != len(p.Wires) {
		t.Errorf("it speaks %d stacks, and wirelab knows %d", len(able.Stacks), len(p.Wires))
	}
}

// optionKeys are the keys of a stack's options, in wirelab's catalog.
func optionKeys(t *testing.T, name string) []string {
	t.Helper()
	s, err := catalog.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return lists.Map(s.Info().Options, func(o scenario.Option) string { return o.Key })
}

// Every two languages understand each other, both ways, on every wire that both speak, with each
// implementation that a peer has.
func TestPeersUnderstandEachOther(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds programs in other languages for minutes (-short)")
	}
	programs := map[string][]string{}
	for _, p := range peer.All() {
		if p.Missing() == "" {
			programs[p.Name] = []string{built(t, p)}
		}
	}
	for _, server := range peer.All() {
		for _, client := range peer.All() {
			for _, wire := range server.Wires {
				other, speaks := client.WireFor(wire.Stack, peer.Client)
				if server.Name == client.Name || !speaks || !wire.Ends.Includes(peer.Server) {
					continue
				}
				for _, serving := range implementations(wire) {
					for _, calling := range implementations(other) {
						name := client.Name + " " + calling + " calls " + server.Name + " " + serving
						t.Run(name, func(t *testing.T) {
							if programs[server.Name] == nil || programs[client.Name] == nil {
								t.Skip(server.Missing() + client.Missing())
							}
							t.Parallel() // nothing is measured
							for _, workload := range workloadsOf(t, other, calling) {
								if slices.Contains(workloadsOf(t, wire, serving), workload) {
									conform.CheckInterop(
										t, workload,
										conform.InteropEnd{Command: programs[server.Name], Stack: serving},
										conform.InteropEnd{Command: programs[client.Name], Stack: calling},
									)
								}
							}
						})
					}
				}
			}
		}
	}
}

// implementations are the variants of a wire that differ at both ends.
func implementations(w peer.Wire) []string {
	all := []string{w.Stack}
	for variant, ends := range variants(w) {
		if variant != w.Stack && ends == peer.Both {
			all = append(all, variant)
		}
	}
	return all
}

func workloadsOf(t *testing.T, w peer.Wire, variant string) []string {
	t.Helper()
	v, err := scenario.ParseVariant(variant)
	if err != nil {
		t.Fatal(err)
	}
	return w.WorkloadsWith(v.Get)
}
