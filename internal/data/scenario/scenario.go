// Package scenario describes what to measure. A scenario is data that is read from a file, checked,
// and expanded into cells, in three steps:
//
//  1. Parse reads the YAML of a file and checks it against a Vocabulary, which
//     knows the stacks and workloads.
//  2. Quick and Only make a smaller scenario of it.
//  3. Plan expands its parts into cells, and puts them, repeat by repeat, into the
//     order in which they are measured.
//
// This package knows no stack and no workload. It does not know how a cell is measured.
package scenario

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/spelling"
)

// Version is the version of the scenario files that this program reads.
const Version = 1

// A Scenario is a question and the measurements that answer it. Its JSON form is a scenario file
// with all defaults written out.
type Scenario struct {
	// The version of the file format: 1.
	Version int `json:"version" jsonschema:"required,enum=1"`
	// The name of the scenario: lower-case letters, digits and dashes.
	Name string `json:"name" jsonschema:"required,pattern=^[a-z0-9-]+$"`
	// The title that a report prints.
	Title string `json:"title,omitempty"`
	// The question that the measurements shall answer.
	Question string `json:"question,omitempty"`
	// The random seed for the order of the trials. If left out, 1.
	Seed uint64 `json:"seed"`
	// How --quick reduces the scenario.
	Reduction Reduction `json:"quick"`
	// Link profiles that networks may use by name, in addition to wirelab's own profiles.
	Profiles []NamedNetwork `json:"profiles,omitempty"`
	// The parts, in the order in which they are measured.
	Parts []Part `json:"parts" jsonschema:"required,minItems=1"`
	// The source of the claims' published figures: the name of a study inside wirelab, or a CSV
	// file with the columns of docs/scenarios.md.
	Published string `json:"published,omitempty"`
	// Published claims that this scenario's measurements test.
	Claims []Claim `json:"claims,omitempty"`
	// Additional content of the report.
	Report Report `json:"report,omitzero"`
}

// A Part is one matrix: every stack with every size and every number of clients.
type Part struct {
	// The name of the part: lower-case letters, digits and dashes.
	Name string `json:"name" jsonschema:"pattern=^[a-z0-9-]+$"`
	// The title that a report prints.
	Title string `json:"title,omitempty"`
	// The rows of a published study that this part reproduces.
	Rows []string `json:"rows,omitempty"`
	// The compared variants, each a stack with options after a colon.
	Stacks []Variant `json:"stacks"`
	// The change from each stack to the next, as clauses. The report then shows each change's share
	// of the difference between the first and the last stack. It ignores stacks after the last
	// change.
	Changes []string `json:"changes,omitempty"`
	// Variants for comparison that need another program or peers in other languages. They are
	// measured only if run --yardstick names the program, or run --peers names all peers.
	Yardsticks []Variant `json:"yardsticks,omitempty"`
	// The called service, with options after a colon. If left out, echo.
	Workload string `json:"workload"`
	// The payload sizes of a request and its response, in bytes: one size for both, or two as in
	// 64/4KiB. Leave it out if the workload's options decide the sizes.
	Sizes []Payload `json:"sizes"`
	// The number of clients that call concurrently. In an open loop, the greatest number of calls
	// in flight.
	Clients []int `json:"clients" jsonschema:"minimum=1"`
	// Data that the workload needs in addition to its options, in the workload's own form. For the
	// workload message, compare --proto makes this data.
	Definition string `json:"definition,omitempty"`
	// How clients get connections: shared, per-worker, pool, pool:N, new, resumed or 0rtt. If left
	// out, each stack uses its default. A variant with conn= keeps its own mode.
	Connection Connection `json:"connection,omitzero"`
	// A network for each trial alone, instead of the machine's loopback.
	Network Network `json:"network,omitzero"`
	// Several networks instead of one. The part then becomes one part per network, named by the
	// part's name, a dash, and the network's name.
	Networks []NamedNetwork `json:"networks,omitempty"`
	// The original part's name, if this part was made from one with several networks.
	Of string `json:"of,omitempty"`
	// Whether every stack that can also use cleartext uses TLS 1.3. It means tls=on in each
	// variant. If left out, no.
	TLS bool `json:"tls,omitempty"`
	// When requests are sent. If left out, a closed loop of 1000 requests per client.
	Load Load `json:"load"`
	// The warm-up before the measured window. If left out, 100ms to 3s.
	WarmUp WarmUp `json:"warm-up"`
	// The number of trials of each cell, each with new processes. If left out, one trial.
	Repeats int `json:"repeats" jsonschema:"minimum=1"`
	// The number of trials of each cell with --quick, if this part's claims need more.
	QuickRepeats int `json:"quick-repeats,omitempty" jsonschema:"minimum=1"`
	// Whether one stack is measured after another. If left out, no: the stacks of a point take turns
	// where they can. All are alive at once, and each in turn is loaded for tens of milliseconds, so
	// that other programs disturb all of them alike.
	OneByOne bool `json:"one-by-one,omitempty"`
	// Whether the windows of stacks that take turns become up to four times as long after the third
	// repeat, if the figures of this run scatter more from slice to slice than from process to process.
	// If left out, no.
	Stretch bool `json:"stretch,omitempty"`
	// Whether client and server may both use all CPUs of the trial, as programs do that nobody pins.
	// If left out, no: each has CPUs of its own.
	Unpinned bool `json:"unpinned,omitempty"`
	// Whether to store every single sample. If left out, no.
	Samples bool `json:"samples"`
	// Pairs of sizes between which the duration of a call may jump. The report says for each stack
	// whether it jumps, and which stacks avoid the first stack's jump.
	Steps []Step `json:"steps,omitempty"`
	// Which changes of the first stack move its calls. wirelab explain --try writes it.
	Levers Levers `json:"levers,omitzero"`
	// The measured cells of the matrix. If left out, all cells.
	Only []Choice `json:"only,omitempty"`
	// The probes that record more than times, in separate trials because they slow a trial down:
	// counters (of the processor), syscalls, cpu (call stacks on a CPU), offcpu (call stacks that
	// wait), alloc (call stacks that allocate), life (the stages of a call, with one client). If
	// left out, none.
	Probes []Probe `json:"probes,omitempty" jsonschema:"enum=counters,enum=syscalls,enum=cpu,enum=offcpu,enum=alloc,enum=life"`
	// The profile of a part that is profiled but not measured. Its only value is allocations, which
	// means the probe alloc. If left out, the part is measured.
	Profile Profile `json:"profile,omitempty" jsonschema:"enum=allocations"`
}

// A Choice identifies a cell of a part's matrix.
type Choice struct {
	// One of the part's stacks.
	Stack Variant `json:"stack" jsonschema:"required"`
	// One of the part's sizes.
	Size Payload `json:"size" jsonschema:"required"`
	// One of the part's numbers of clients.
	Clients int `json:"clients" jsonschema:"required,minimum=1"`
}

// A Step holds two neighbouring payload sizes.
type Step struct {
	// The smaller size.
	From Size `json:"from" jsonschema:"required"`
	// The larger size.
	To Size `json:"to" jsonschema:"required"`
}

// A Profile is a resource for which a part is profiled but not measured.
type Profile string

// Allocations is the profile of heap allocations.
const Allocations Profile = "allocations"

// WarmUp limits the warm-up before the measured window. Between AtLeast and AtMost, the warm-up
// ends when a steady state is detected. If AtMost is zero, there is no warm-up, and the window
// begins with the first request.
type WarmUp struct {
	// The shortest warm-up.
	AtLeast Duration `json:"at-least"`
	// The longest warm-up. After it the window begins even without a steady state. 0s means no
	// warm-up.
	AtMost Duration `json:"at-most" jsonschema:"required"`
}

// A Reduction holds the settings of --quick for a scenario.
type Reduction struct {
	// The remaining share of the requests and of the window's length. If left out, 0.1.
	Requests float64 `json:"requests" jsonschema:"exclusiveMinimum=0,maximum=1"`
	// The greatest number of clients. If left out, 100.
	MaxClients int `json:"max-clients" jsonschema:"minimum=1"`
	// The greatest number of repeats. If left out, 1.
	Repeats int `json:"repeats" jsonschema:"minimum=1"`
}

// Report selects additional content of the scenario's report.
type Report struct {
	// Whether each part is a separate case of equal importance. The advice then counts the cases in
	// which each stack is faster than the first. If left out, no.
	Cases bool `json:"cases,omitempty"`
	// A CSV file beside the report, with one row per cell.
	Table Table `json:"table,omitzero"`
}

// A Table is a CSV file with one row per cell.
type Table struct {
	// The name of the file. Wirelab adds the minute in which the run began, and .csv.
	File string `json:"file" jsonschema:"required,pattern=^[a-z0-9-]+$"`
	// The columns. If left out, all columns. The error for an unknown column lists all columns.
	Columns []string `json:"columns,omitempty"`
}

// Quick returns a smaller scenario, with fewer requests, clients and repeats according to
// Reduction. Its title ends in "(quick)".
func (s *Scenario) Quick() *Scenario {
	quick := *s
	quick.Title = strings.TrimSpace(s.Title + " (quick)")
	quick.Parts = lists.Map(s.Parts, s.Reduction.reduce)
	return &quick
}

func (r Reduction) reduce(p Part) Part {
	p.Repeats = min(p.Repeats, cmp.Or(p.QuickRepeats, r.Repeats))
	// a burst is short, and a smaller burst would answer another question
	if p.Load.Model == Burst {
		return p
	}
	var clients []int
	for _, c := range p.Clients {
		clients = lists.AppendNew(clients, min(c, r.MaxClients))
	}
	p.Clients = clients
	p.Only = slices.Clone(p.Only)
	for i := range p.Only {
		p.Only[i].Clients = min(p.Only[i].Clients, r.MaxClients)
	}
	if p.Load.Requests > 0 {
		p.Load.Requests = max(1, int(math.Round(float64(p.Load.Requests)*r.Requests)))
	}
	if p.Load.Total > 0 { // in a closed loop, each client needs at least one request
		least := 1
		if p.Load.Model == Closed {
			least = slices.Max(clients)
		}
		p.Load.Total = max(least, int(math.Round(float64(p.Load.Total)*r.Requests)))
	}
	// a shorter step of a search would only be less exact
	if p.Load.Duration > 0 && p.Load.Model != Search {
		p.Load.Duration = max(1, Duration(math.Round(float64(p.Load.Duration)*r.Requests)))
	}
	return p
}

func (s *Scenario) partNames() []string {
	return lists.Map(s.Parts, func(p Part) string { return p.Name })
}

// Only returns the scenario with only these parts, in the order of the file. A name may be a
// pattern such as table-*, or the name of a part that was split by its networks.
func (s *Scenario) Only(parts ...string) (*Scenario, error) {
	names := s.partNames()
	chosen := map[string]bool{}
	for _, wanted := range parts {
		found := false
		for i, name := range names {
			matches, err := path.Match(wanted, name)
			if err != nil {
				return nil, fmt.Errorf("part %q: %w: want a name, or a pattern such as %s*", wanted, err, names[0][:1])
			}
			matches = matches || s.Parts[i].Of == wanted
			chosen[name] = chosen[name] || matches
			found = found || matches
		}
		if !found {
			return nil, fmt.Errorf("scenario %s has no part %q; %s", s.Name, wanted, spelling.Suggest(wanted, names))
		}
	}
	only := *s
	only.Parts = slices.DeleteFunc(slices.Clone(s.Parts), func(p Part) bool {
		return !chosen[p.Name]
	})
	only.Claims = slices.DeleteFunc(slices.Clone(s.Claims), func(c Claim) bool { return !s.isAnswered(&c, chosen) })
	if len(only.Parts) == 0 {
		return nil, fmt.Errorf("scenario %s: name at least one of the parts %s", s.Name, strings.Join(names, ", "))
	}
	return &only, nil
}

// With returns the scenario with the wanted yardsticks appended to the stacks.
func (s *Scenario) With(wanted func(yardstick Variant) bool) *Scenario {
	unwanted := func(v Variant) bool { return !wanted(v) }
	with := *s
	with.Parts = slices.Clone(s.Parts)
	for i, p := range s.Parts {
		with.Parts[i].Stacks = slices.Concat(p.Stacks, slices.DeleteFunc(slices.Clone(p.Yardsticks), unwanted))
		with.Parts[i].Yardsticks = slices.DeleteFunc(slices.Clone(p.Yardsticks), wanted)
	}
	return &with
}
