// Package foreign reads what other load generators wrote of their runs, as records.
//
//		a tool's JSON file ──> Read ──> Result ──> Records ──> record.Record a file
//
//	 1. [Read] finds out by its content which of [Tools] wrote a file.
//	 2. That tool's file of this package reads its figures, as they are, into a [Result].
//	 3. [Records] makes a record of each; those of one tool, target, call and load are
//	    repeats of one cell.
//
// No figure is computed here that the file does not have: what it lacks is absent, and what
// its figures are of is said in the result's remarks. A tool is a file here and a line in
// Tools.
//
// The package must not know where a run is kept, nor what its figures mean.
package foreign

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
)

// Tool is a load generator whose summary is read.
type Tool struct {
	Name  string
	Makes string // the flags that make it write the file
	isIts func(object) bool
	read  func(data []byte) (*Result, error)
}

// Tools lists them.
var Tools = []Tool{ghz, oha, k6, fortio}

// MaxBytes is the size of the largest file that is read: ghz lists up to a million calls, in
// some 130 bytes each.
const MaxBytes = 256 << 20

// Result is what a file says. Times are from the actual send of a call to its answer unless
// the remarks say otherwise.
type Result struct {
	Tool, Version string // the version is empty where the file does not say
	Target        string // HOST:PORT; empty where the file does not say
	Workload      string // what was called
	Clients       int    // 0 where the file does not say
	Load          record.Load
	Started       time.Time // zero where the file does not say
	Window        time.Duration
	Calls         int64 // that ended, those that failed among them
	Errors        []record.ErrorCount
	Times         latency.Distribution
	// Remarks are what a reader must know of these figures, each a sentence.
	Remarks []string
}

// object is the members of a file.
type object map[string]json.RawMessage

func (o object) has(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { _, is := o[name]; return !is })
}

// Read reads a file of one of the tools. The error says what was found in it.
func Read(data []byte) (*Result, error) {
	var members object
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, fmt.Errorf("found %s; %s", describe(data, err), wanted())
	}
	for _, tool := range Tools {
		if !tool.isIts(members) {
			continue
		}
		result, err := tool.read(data)
		if err == nil {
			result.Tool = tool.Name
			err = result.check()
		}
		if err != nil {
			return nil, fmt.Errorf("it looks like a file of %s (%s), but %w", tool.Name, tool.Makes, err)
		}
		return result, nil
	}
	return nil, fmt.Errorf("found a JSON object with %s; %s", nameMembers(members), wanted())
}

func wanted() string {
	texts := make([]string, len(Tools))
	for i, tool := range Tools {
		texts[i] = fmt.Sprintf("%s (%s)", tool.Name, tool.Makes)
	}
	return "want the JSON summary of one of " + strings.Join(texts, ", ")
}

// describe says what is in a file that is no JSON object.
func describe(data []byte, err error) string {
	var syntax *json.SyntaxError
	switch {
	case len(data) == 0:
		return "an empty file"
	case errors.As(err, &syntax):
		before := data[:min(max(syntax.Offset-1, 0), int64(len(data)))]
		return fmt.Sprintf("no JSON: line %d: %v", strings.Count(string(before), "\n")+1, err)
	}
	return "JSON that is no object"
}

// nameMembers names the first of them.
func nameMembers(members object) string {
	const shown, longest = 5, 40
	names := make([]string, 0, len(members))
	for name := range members {
		if len(name) > longest {
			name = name[:longest] + "…"
		}
		names = append(names, fmt.Sprintf("%q", name))
	}
	slices.Sort(names)
	switch more := len(names) - shown; {
	case len(names) == 0:
		return "no members"
	case more > 0:
		return fmt.Sprintf("the members %s and %d more", strings.Join(names[:shown], ", "), more)
	}
	return "the members " + strings.Join(names, ", ")
}

// check refuses figures that contradict each other, or that no run has.
func (r *Result) check() error {
	failed := int64(0)
	for _, e := range r.Errors {
		if e.Count < 0 || e.Count > r.Calls {
			return fmt.Errorf("it counts %d failures of %d calls", e.Count, r.Calls)
		}
		failed += e.Count
	}
	t := r.Times
	switch {
	case r.Calls <= 0:
		return errors.New("it holds no calls")
	case failed > r.Calls:
		return fmt.Errorf("it counts %d failures of %d calls", failed, r.Calls)
	case r.Window <= 0:
		return errors.New("it does not say how long the run took")
	case r.Clients < 0:
		return fmt.Errorf("it has %d clients", r.Clients)
	case r.Load.RatePerSecond < 0:
		return fmt.Errorf("it has a rate of %v a second", r.Load.RatePerSecond)
	case t.Count <= 0 || t.Count > r.Calls:
		return fmt.Errorf("it times %d of %d calls", t.Count, r.Calls)
	case t.Min < 0 || t.Min > t.Max || t.Sum < 0:
		return fmt.Errorf("its calls take from %d to %d ns, %d ns together", t.Min, t.Max, t.Sum)
	}
	for i, p := range t.Percentiles {
		if p.Duration < 0 || i > 0 && (p.Duration < t.Percentiles[i-1].Duration || p.Quantile <= t.Percentiles[i-1].Quantile) {
			return fmt.Errorf("its percentile %g is %d ns, which contradicts the others", 100*p.Quantile, p.Duration)
		}
	}
	return nil
}

// File is a result with the file that it is of.
type File struct {
	*Result
	Name   string // without its folder
	SHA256 string
}

// Part is that of every cell of other programs.
const Part = "import"

// Records makes a record of each file, in their order.
func Records(files []File) []record.Record {
	repeats := map[record.Cell]int{}
	records := make([]record.Record, len(files))
	for i, f := range files {
		cell := f.cell()
		repeats[cell]++
		records[i] = f.record(cell)
		records[i].Trial, records[i].Repeat = i, repeats[cell]
	}
	return records
}

func (r *Result) cell() record.Cell {
	return record.Cell{
		Part: Part, Stack: r.Tool, Variant: r.Tool, Workload: r.Workload, Clients: r.Clients, Load: r.Load, Target: r.Target, Tool: r.Tool,
	}
}

func (f File) record(cell record.Cell) record.Record {
	from := &record.Foreign{Tool: f.Tool, Version: f.Version, File: f.Name, SHA256: f.SHA256}
	return record.Record{
		Cell: cell, Started: f.Started, TookNS: int64(f.Window), WindowNS: int64(f.Window), Foreign: from,
		Measurement: record.Measurement{ClientProgram: from.Program(), Requests: f.Calls, Completed: f.Calls, Service: f.Times},
		Errors:      f.Errors,
		Warnings:    append(slices.Clone(f.Remarks), unknowns(from.Program())),
	}
}

// unknowns are what no tool's file has.
func unknowns(program string) string {
	return program + " measured this, and wirelab did not: CPU time and memory of both ends, the connections and what else the machine did are not known; what warming up there was is in the window"
}
