// Package summary makes records from the reports of other load generators.
//
//		a tool's JSON file ──> Formats.Read ──> Result ──> Records ──> record.Record per file
//
//	 1. [Formats.Read] recognises the [Format] of a file by its content.
//	 2. The tool's package reads the figures of the file unchanged into a [Result].
//	 3. [Records] makes a record of each result. Records with equal tool, target, call and load
//	    are repeats of one cell.
//
// Figures that a file lacks stay unknown. The result's remarks say what its figures leave out.
//
// The package does not know where runs are stored, what figures mean, or which tools exist.
package summary

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/excerpt"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
)

// A Format describes the JSON report of a load generator.
type Format struct {
	Tool  string
	Makes string // flags that make the tool write the report
	Is    func(Object) bool
	Read  func(data []byte) (*Result, error)
}

// Formats lists report formats.
type Formats []Format

// MaxBytes limits the size of a file. ghz lists up to a million calls, with some 130 bytes each.
const MaxBytes = 256 << 20

// A Result holds the figures of a file. Times start at the actual send unless a remark differs.
type Result struct {
	Tool, Version string // Version is empty if unknown
	Target        string // HOST:PORT; empty if unknown
	Workload      string // URL or method of the calls
	Clients       int    // 0 if unknown
	Load          record.Load
	Started       time.Time // zero if unknown
	Window        time.Duration
	Calls         int64 // number of ended calls, including failed ones
	Errors        []record.ErrorCount
	Times         latency.Distribution
	// Remarks holds sentences that the report must show with these figures.
	Remarks []string
}

// An Object holds the members of a JSON file.
type Object map[string]json.RawMessage

// Has reports whether the object has members with all of these names.
func (o Object) Has(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { _, is := o[name]; return !is })
}

// Read reads a file in one of the formats. If it knows none, the error describes the file.
func (all Formats) Read(data []byte) (*Result, error) {
	var members Object
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, fmt.Errorf("found %s; %s", describeContent(data, err), all.wanted())
	}
	for _, format := range all {
		if !format.Is(members) {
			continue
		}
		result, err := format.Read(data)
		if err == nil {
			result.Tool = format.Tool
			result.Times.Percentiles = sorted(result.Times.Percentiles)
			err = result.check()
		}
		if err != nil {
			return nil, fmt.Errorf("the file looks like a report of %s (%s), but %w", format.Tool, format.Makes, err)
		}
		return result, nil
	}
	return nil, fmt.Errorf("found a JSON object with %s; %s", nameMembers(members), all.wanted())
}

func (all Formats) wanted() string {
	texts := lists.Map(all, func(f Format) string { return fmt.Sprintf("%s (%s)", f.Tool, f.Makes) })
	return "want the JSON summary of one of " + strings.Join(texts, ", ")
}

func describeContent(data []byte, err error) string {
	var syntax *json.SyntaxError
	switch {
	case len(data) == 0:
		return "an empty file"
	case errors.As(err, &syntax):
		before := data[:min(max(syntax.Offset-1, 0), int64(len(data)))]
		return fmt.Sprintf("invalid JSON: line %d: %v", strings.Count(string(before), "\n")+1, err)
	}
	return "JSON other than an object"
}

func nameMembers(members Object) string {
	const shown, longest = 5, 40
	names := lists.Map(slices.Sorted(maps.Keys(members)), func(name string) string { return fmt.Sprintf("%q", excerpt.Start(name, longest)) })
	switch more := len(names) - shown; {
	case len(names) == 0:
		return "no members"
	case more > 0:
		return fmt.Sprintf("the members %s and %d more", strings.Join(names[:shown], ", "), more)
	}
	return "the members " + strings.Join(names, ", ")
}

// check returns an error if figures are impossible or contradict each other.
func (r *Result) check() error {
	failed := int64(0)
	for _, e := range r.Errors {
		if e.Count < 0 || e.Count > r.Calls {
			return fmt.Errorf("the report counts %d failures among %d calls", e.Count, r.Calls)
		}
		failed += e.Count
	}
	t := r.Times
	switch {
	case r.Calls <= 0:
		return errors.New("the report holds no calls")
	case failed > r.Calls:
		return fmt.Errorf("the report counts %d failures among %d calls", failed, r.Calls)
	case r.Window <= 0:
		return errors.New("the report lacks the duration of the run")
	case r.Clients < 0:
		return fmt.Errorf("the report has the negative number of clients %d", r.Clients)
	case r.Load.RatePerSecond < 0:
		return fmt.Errorf("the report has a negative rate: %v per second", r.Load.RatePerSecond)
	case t.Count <= 0 || t.Count > r.Calls:
		return fmt.Errorf("the report has times for %d of %d calls", t.Count, r.Calls)
	case t.Min < 0 || t.Min > t.Max || t.Sum < 0:
		return fmt.Errorf("the call times in the report are impossible: from %d to %d ns, %d ns in total", t.Min, t.Max, t.Sum)
	}
	for i, p := range t.Percentiles {
		if p.Duration < 0 || i > 0 && (p.Duration < t.Percentiles[i-1].Duration || p.Quantile <= t.Percentiles[i-1].Quantile) {
			return fmt.Errorf("percentile %g in the report is %d ns, which contradicts the other percentiles", 100*p.Quantile, p.Duration)
		}
	}
	return nil
}

// A File is a result and the name of its file.
type File struct {
	*Result
	Name   string // name of the file, without the folder
	SHA256 string
}

// Records makes one record per file, in the order of the files.
func Records(files []File) []record.Record {
	repeats := map[record.Cell]int{}
	records := make([]record.Record, len(files))
	for i, f := range files {
		cell := record.Cell{
			Part: "import", Stack: f.Tool, Variant: f.Tool, Place: record.Place{Workload: f.Workload, Clients: f.Clients}, Load: f.Load, Target: f.Target, Tool: f.Tool,
		}
		repeats[cell]++
		records[i] = f.record(cell)
		records[i].Trial, records[i].Repeat = i, repeats[cell]
	}
	return records
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

func unknowns(program string) string {
	return program + " measured this, and wirelab did not: CPU time and memory of both ends, the connections and other load on the machine are unknown; any warm-up is part of the window"
}

// Totals returns a distribution without buckets. Times are in nanoseconds.
func Totals(count int64, mean float64, shortest, longest int64) latency.Distribution {
	sum := mean * float64(count)
	if !(sum >= 0 && sum < math.MaxInt64) {
		sum = -1 // check refuses this value
	}
	return latency.Distribution{Count: count, Sum: int64(math.Round(sum)), Min: shortest, Max: longest}
}

// Nanoseconds converts a duration to nanoseconds. It returns -1 for an invalid value.
func Nanoseconds(value float64, unit time.Duration) int64 {
	value *= float64(unit)
	if !(value >= 0 && value < math.MaxInt64) {
		return -1
	}
	return int64(math.Round(value))
}

// sorted sorts percentiles and removes duplicates, such as med if p(50) is present.
func sorted(all []latency.Percentile) []latency.Percentile {
	slices.SortFunc(all, func(a, b latency.Percentile) int {
		return cmp.Or(cmp.Compare(a.Quantile, b.Quantile), cmp.Compare(a.Duration, b.Duration))
	})
	return slices.Compact(all)
}

// SplitURL splits a URL into its address (HOST:PORT) and its path with the query.
func SplitURL(text string) (target, path string) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "", text
	}
	return u.Host, cmp.Or(u.RequestURI(), "/")
}

// ClosedRemark returns a remark about what the times of a closed loop leave out.
func ClosedRemark(tool string) string {
	return tool + " ran a closed loop: each client waited for its answer before it sent again, so requests that would have met a stall were never sent (coordinated omission)"
}

// PacedRemark returns a remark about what the times of paced clients leave out.
func PacedRemark(tool string) string {
	return tool + " held a rate with clients that wait for their answers, and timed each call from its actual send: no figure includes delays before the send (coordinated omission)"
}

// UnknownCall is the workload's name if the file does not name the call.
const UnknownCall = "untold"

// UnknownCallRemark returns a remark that the file does not name the call.
func UnknownCallRemark(tool string) string {
	return "the file does not say what " + tool + " called: files that are given together count as repeats"
}

// ReadFile reads a tool's file with this content and path.
func (all Formats) ReadFile(path string, data []byte) (File, error) {
	result, err := all.Read(data)
	if err != nil {
		return File{}, err
	}
	sum := sha256.Sum256(data)
	return File{Result: result, Name: filepath.Base(path), SHA256: hex.EncodeToString(sum[:])}, nil
}

// NoScenario is the empty scenario in the manifest of an imported run.
const NoScenario = "{}"

// Manifest returns the manifest of a run with imported records. Scenario and host are unknown. The
// caller adds the tool and the command.
func Manifest(records []record.Record) record.Manifest {
	nothing := json.RawMessage(NoScenario)
	var tools []string
	started := time.Time{}
	m := record.Manifest{
		Version: record.Version, Status: record.Running,
		Trials: len(records), Scenario: nothing, Declarations: nothing, Host: nothing,
	}
	for _, r := range records {
		tools = lists.AppendNew(tools, r.Foreign.Tool)
		if !r.Started.IsZero() && (started.IsZero() || r.Started.Before(started)) {
			started = r.Started
		}
		m.Order = append(m.Order, record.PlannedTrial{Trial: r.Trial, Repeat: r.Repeat, Cell: r.Cell.Key()})
	}
	if m.Started = started; started.IsZero() {
		m.Started = time.Now()
		m.Warnings = []string{"no file has a date: the date of the import is used"}
	}
	m.Name = "import-" + strings.Join(tools, "-")
	m.Title = "Imported: figures by " + strings.Join(tools, ", ") + ", not by wirelab"
	return m
}
