// Package scenario says what to measure: pure data that is read from a file,
// checked, and expanded into cells. Data passes through in three stages:
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

// Version is the form of the scenario files that this program reads.
const Version = 1

// A Scenario is a question and the measurements that answer it. Its JSON is
// itself a scenario file, with every default written out.
type Scenario struct {
	// The form of the file: 1.
	Version int `json:"version" jsonschema:"required,enum=1"`
	// The name of the scenario: lower-case letters, digits and dashes.
	Name string `json:"name" jsonschema:"required,pattern=^[a-z0-9-]+$"`
	// The title, as a report prints it.
	Title string `json:"title,omitempty"`
	// The question that the measurements are to answer.
	Question string `json:"question,omitempty"`
	// The seed that the order of the trials is shuffled with. If left out, 1.
	Seed uint64 `json:"seed"`
	// How --quick reduces the scenario.
	Reduction Reduction `json:"quick"`
	// Conditions of links that networks may name as their profile, beside those that
	// wirelab knows.
	Profiles []NamedNetwork `json:"profiles,omitempty"`
	// The parts, in the order in which they are measured.
	Parts []Part `json:"parts" jsonschema:"required,minItems=1"`
	// Where the claims' published figures are: the name of a study that wirelab carries,
	// or a CSV file with the columns of docs/scenarios.md.
	Published string `json:"published,omitempty"`
	// Claims from elsewhere that the measurements of this scenario judge.
	Claims []Claim `json:"claims,omitempty"`
	// What the report shows beyond the content of every report.
	Report Report `json:"report,omitzero"`
}

// A Part is one matrix: every stack with every size and every number of clients.
type Part struct {
	// The name of the part: lower-case letters, digits and dashes.
	Name string `json:"name" jsonschema:"pattern=^[a-z0-9-]+$"`
	// The title, as a report prints it.
	Title string `json:"title,omitempty"`
	// The rows of a published study that this part answers.
	Rows []string `json:"rows,omitempty"`
	// The variants that are compared: a stack, with options behind a colon.
	Stacks []Variant `json:"stacks"`
	// The change from each of the stacks to the next, as clauses: the report
	// then gives each change's share in the difference between the first stack
	// and the last. Stacks after the last change are left out.
	Changes []string `json:"changes,omitempty"`
	// Variants to compare the stacks with that need another program, or peers
	// in other languages. They are measured if run --yardstick names the
	// program, or run --peers names all of the peers.
	Yardsticks []Variant `json:"yardsticks,omitempty"`
	// The service that is called, with options behind a colon. If left out,
	// echo.
	Workload string `json:"workload"`
	// How many bytes of payload a request and its response carry: one size
	// for both, or two as in 64/4KiB. Left out for a workload whose options
	// decide it.
	Sizes []Payload `json:"sizes"`
	// How many clients call at once; in an open loop, how many calls may be
	// out at once.
	Clients []int `json:"clients" jsonschema:"minimum=1"`
	// The data that the workload needs beside its options, in the workload's
	// own form. For the workload message, compare --proto makes it.
	Definition string `json:"definition,omitempty"`
	// How the clients get their connections: shared, per-worker, pool,
	// pool:N, new, resumed or 0rtt. If left out, each stack has its own
	// default. A variant that says conn= keeps its own.
	Connection Connection `json:"connection,omitzero"`
	// A network for the trial alone, instead of the machine's loopback.
	Network Network `json:"network,omitzero"`
	// Several networks, in place of one: the part is then read as one part per network. Its
	// name is the part's name, a dash, and the network's name.
	Networks []NamedNetwork `json:"networks,omitempty"`
	// The name of the part with several networks that this one was read from.
	Of string `json:"of,omitempty"`
	// Whether every stack that has a cleartext form goes over TLS 1.3: the
	// same as tls=on in each variant. If left out, no.
	TLS bool `json:"tls,omitempty"`
	// When requests are sent. If left out, a closed loop of 1000 requests
	// per client.
	Load Load `json:"load"`
	// What goes before the measured window. If left out, 100ms to 3s.
	WarmUp WarmUp `json:"warm-up"`
	// How often each cell is measured, each time with fresh processes. If
	// left out, once.
	Repeats int `json:"repeats" jsonschema:"minimum=1"`
	// How often --quick measures each cell of this part, in place of the scenario's
	// number: for a part whose claims need several repeats.
	QuickRepeats int `json:"quick-repeats,omitempty" jsonschema:"minimum=1"`
	// Whether every single sample is kept. If left out, no.
	Samples bool `json:"samples"`
	// Sizes between which the time of a call may jump: the report says for each of
	// the stacks whether it does, and which stacks lose the jump of the first
	// stack.
	Steps []Step `json:"steps,omitempty"`
	// The cells of the matrix that are measured. If left out, all.
	Only []Choice `json:"only,omitempty"`
	// The probes that record each cell besides its times, in trials of their own,
	// since they slow them down: counters (of the processor), syscalls, cpu (call stacks on
	// a CPU), offcpu (call stacks that wait), alloc (call stacks that allocate),
	// life (the stages of a call, with one client). If left out, nothing.
	Probes []Probe `json:"probes,omitempty" jsonschema:"enum=counters,enum=syscalls,enum=cpu,enum=offcpu,enum=alloc,enum=life"`
	// The profile of a part that is profiled instead of being measured:
	// allocations, which is the probe alloc. If left out, the part is measured.
	Profile Profile `json:"profile,omitempty" jsonschema:"enum=allocations"`
}

// A Choice is a cell of a part's matrix.
type Choice struct {
	// One of the part's stacks.
	Stack Variant `json:"stack" jsonschema:"required"`
	// One of its sizes.
	Size Payload `json:"size" jsonschema:"required"`
	// One of its numbers of clients.
	Clients int `json:"clients" jsonschema:"required,minimum=1"`
}

// A Step holds two neighbouring sizes of request and response.
type Step struct {
	// The smaller of the sizes.
	From Size `json:"from" jsonschema:"required"`
	// The larger one.
	To Size `json:"to" jsonschema:"required"`
}

// A Profile names a resource that a part is profiled for, instead of being measured.
type Profile string

// Allocations is the profile of heap allocations.
const Allocations Profile = "allocations"

// WarmUp bounds what goes before the measured window; it ends between the two
// as soon as a steady state is seen. If AtMost is zero there is no warm-up, and
// the window begins with the first request.
type WarmUp struct {
	// The shortest warm-up.
	AtLeast Duration `json:"at-least"`
	// The longest warm-up: from then on the window is measured, steady or
	// not. 0s for no warm-up at all.
	AtMost Duration `json:"at-most" jsonschema:"required"`
}

// A Reduction says how --quick reduces a scenario.
type Reduction struct {
	// The share of the requests, and of a window's duration, that is left.
	// If left out, 0.1.
	Requests float64 `json:"requests" jsonschema:"exclusiveMinimum=0,maximum=1"`
	// More clients than this become this many. If left out, 100.
	MaxClients int `json:"max-clients" jsonschema:"minimum=1"`
	// More repeats than this become this many. If left out, 1.
	Repeats int `json:"repeats" jsonschema:"minimum=1"`
}

// Report says what a scenario's report shows beyond the content of every report.
type Report struct {
	// Whether each part is a case of its own, and none the main one: the advice
	// then counts the cases in which each stack is faster than the first. If
	// left out, no.
	Cases bool `json:"cases,omitempty"`
	// A CSV file with one row per cell, beside the report.
	Table Table `json:"table,omitzero"`
}

// A Table is a CSV file with one row per cell.
type Table struct {
	// The name of the file: the minute in which the run began, and .csv, are
	// added to it.
	File string `json:"file" jsonschema:"required,pattern=^[a-z0-9-]+$"`
	// The columns; an unknown one is an error that lists all. If left out, all.
	Columns []string `json:"columns,omitempty"`
}

// Quick returns a smaller scenario with fewer requests, clients and repeats, as
// the Reduction says. Its title ends in "(quick)".
func (s *Scenario) Quick() *Scenario {
	quick := *s
	quick.Title = strings.TrimSpace(s.Title + " (quick)")
	quick.Parts = lists.Map(s.Parts, s.Reduction.reduce)
	return &quick
}

func (r Reduction) reduce(p Part) Part {
	p.Repeats = min(p.Repeats, cmp.Or(p.QuickRepeats, r.Repeats))
	if p.Load.Model == Burst { // it is over in a moment, and a smaller burst is another question
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
	if p.Load.Total > 0 { // no client may be left without a request
		p.Load.Total = max(slices.Max(clients), int(math.Round(float64(p.Load.Total)*r.Requests)))
	}
	if p.Load.Duration > 0 && p.Load.Model != Search { // a shorter step would only be less exact
		p.Load.Duration = max(1, Duration(math.Round(float64(p.Load.Duration)*r.Requests)))
	}
	return p
}

func (s *Scenario) partNames() []string {
	return lists.Map(s.Parts, func(p Part) string { return p.Name })
}

// Only returns the scenario with only these parts, in the order of the file. A name may
// be a pattern, as in table-*, or the name of a part that several networks split.
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

// With returns the scenario with the wanted yardsticks moved to the end of the stacks.
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
