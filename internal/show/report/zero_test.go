package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// unshown lists the fields that a record may lack and that no report shows.
var unshown = []string{
	"Measurement.WarmUp.LearntNS", "Measurement.Outside", // without the latter, the calls of the warm-up stand
	"Client.SwitchesVol", "Client.SwitchesInv", "Client.MinorFaults", "Client.MajorFaults", "Client.GCCycles",
	"Server.SwitchesVol", "Server.SwitchesInv", "Server.MinorFaults", "Server.MajorFaults", "Server.GCCycles",
	"Client.SchedP50NS", "Client.SchedP99NS", "Server.SchedP50NS", "Server.SchedP99NS", "Client.GCAssistNS", "Server.GCAssistNS", // claims name them
	"Host.PressureShare",
	"Host.AcceptDrops", "Host.UDPDrops", "Host.SuspendedNS",
	"Client.QuotaCPUs", "Client.ThrottledNS", "Client.ThrottledPeriods", "Client.GCPercent",
	"Server.QuotaCPUs", "Server.ThrottledNS", "Server.ThrottledPeriods", "Server.GCPercent", // the judge's
	"Measurement.FailedNS", "WorkNS", "Client.StoppedNS", "Server.StoppedNS",
	"Client.WaitedNS", "Server.WaitedNS", "Host.OthersCPUs",
	"Link.Up.DelayP50NS", "Link.Up.DelayP99NS", "Link.Up.LateP50NS", "Link.Up.LateP99NS",
	"Link.Down.DelayP50NS", "Link.Down.DelayP99NS", "Link.Down.LateP50NS", "Link.Down.LateP99NS", // the judge's
	"Life.TracedNS", "Life.BareNS", "Life.Unread", "Life.Unacknowledged", // of trials that were looked into, which are no cells
}

// divisors lists the counts that some figures divide by, with these figures. The
// figures are unknown if the count is zero. Other virtual machines that took nothing are not listed.
var divisors = map[string][]string{
	"Traffic.SendCalls":    {"requests_per_write", "packets_per_call"},
	"Traffic.ReceiveCalls": {"packets_per_call"},
	"Traffic.SentPackets":  {"requests_per_segment"},
	"Host.StolenShare":     {"other_programs.programs"},
}

// Whatever a record may lack is null, and empty in CSV, where it lacks it, and
// zero where zero was measured.
func TestZeroAndUnknownDiffer(t *testing.T) {
	value := func(v int) func(reflect.Value) {
		return func(field reflect.Value) {
			number := reflect.New(field.Type().Elem())
			number.Elem().Set(reflect.ValueOf(v).Convert(number.Type().Elem()))
			field.Set(number)
		}
	}
	absent := func(field reflect.Value) { field.SetZero() }
	zero, some := value(0), value(1)

	var names []string
	eachNullable(reflect.ValueOf(sweepRecord(t, 1)).Elem(), "", func(name string, _ reflect.Value) { names = append(names, name) })
	if len(names) < 60 {
		t.Fatalf("a record has %d figures that may be absent: %v", len(names), names)
	}
	for _, name := range names {
		unknown, known, measured := shownWith(t, name, absent), shownWith(t, name, some), shownWith(t, name, zero)
		shown := 0
		for _, place := range slices.Sorted(maps.Keys(known)) {
			if known[place] == "" || unknown[place] != "" {
				continue // not a figure, or not of this
			}
			shown++
			if measured[place] == "" && !slices.ContainsFunc(divisors[name], func(of string) bool { return strings.Contains(place, of) }) {
				t.Errorf("%s is 0, and %s is null or empty", name, place)
			}
		}
		if (shown == 0) != slices.Contains(unshown, name) {
			t.Errorf("%s: %d figures are null without it", name, shown)
		}
	}
}

// shownWith is every figure of the object for programs, of the page's and of the
// CSV, by its place, where one field of the records is set so. What is null or
// empty is the empty string.
func shownWith(t *testing.T, name string, set func(reflect.Value)) map[string]string {
	t.Helper()
	var records []*record.Record
	for i, clients := range []int{1, 4} {
		r := sweepRecord(t, clients)
		r.Trial = i
		eachNullable(reflect.ValueOf(r).Elem(), "", func(field string, v reflect.Value) {
			v.Set(reflect.New(v.Type().Elem()))
			v.Elem().Set(reflect.ValueOf(1).Convert(v.Type().Elem()))
			if field == name {
				set(v)
			}
		})
		records = append(records, r)
	}
	manifest := record.Manifest{Trials: len(records), Declarations: json.RawMessage(`{"workloads": [{"name": "ping", "sweep": true}]}`)}
	summary, err := analysis.Summarize(&manifest, analysis.JudgedTrials{Records: records}, insight.BuiltInCategories())
	if err != nil {
		t.Fatal(err)
	}
	return figuresOf(t, &Run{Summary: summary})
}

func figuresOf(t *testing.T, run *Run) map[string]string {
	t.Helper()
	figures := map[string]string{}
	for _, as := range []struct {
		reader audience
		object any
	}{{forPrograms, NewObject(run)}, {forPage, newPageData(run)}} {
		data, err := encode(as.object, as.reader)
		if err != nil {
			t.Fatal(err)
		}
		var object any
		if err := json.Unmarshal(data, &object); err != nil {
			t.Fatal(err)
		}
		flatten(string(as.reader), object, figures)
	}
	var out bytes.Buffer
	if err := WriteCSV(&out, run); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rows[1:] {
		for j, text := range row {
			figures[fmt.Sprintf("csv.%d.%s", i, rows[0][j])] = text
		}
	}
	return figures
}

// flatten notes the numbers of a JSON value by their paths.
func flatten(path string, value any, into map[string]string) {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			flatten(path+"."+name, member, into)
		}
	case []any:
		for i, element := range value {
			flatten(fmt.Sprintf("%s.%d", path, i), element, into)
		}
	case float64:
		into[path] = fmt.Sprint(value)
	}
}

// eachNullable visits the figures of a record that may be absent. Parts of it
// that may be absent as a whole are made for it.
func eachNullable(v reflect.Value, prefix string, visit func(string, reflect.Value)) {
	for i := range v.NumField() {
		field, name := v.Field(i), prefix+v.Type().Field(i).Name
		kind := field.Kind()
		if kind == reflect.Pointer {
			kind = field.Type().Elem().Kind()
		}
		switch {
		case field.Type() == reflect.TypeFor[*record.Allocations]() || field.Type() == reflect.TypeFor[latency.Distribution]():
		case kind == reflect.Struct && field.Kind() == reflect.Pointer:
			if mayLackFigures(field.Type().Elem()) {
				if field.IsNil() {
					field.Set(reflect.New(field.Type().Elem()))
				}
				eachNullable(field.Elem(), name+".", visit)
			}
		case kind == reflect.Struct && field.CanInterface() && field.Type().PkgPath() == v.Type().PkgPath():
			eachNullable(field, name+".", visit)
		case field.Kind() == reflect.Pointer && (kind == reflect.Int64 || kind == reflect.Float64):
			visit(name, field)
		}
	}
}

func mayLackFigures(t reflect.Type) bool {
	found := false
	eachNullable(reflect.New(t).Elem(), "", func(string, reflect.Value) { found = true })
	return found
}

var sweepTimes = sync.OnceValues(func() (latency.Distribution, error) {
	recorder := latency.NewRecorder()
	defer recorder.Close()
	for range 1000 {
		recorder.Record(100_000)
	}
	return latency.NewHistogram(recorder).Distribution()
})

// sweepRecord is a trial of a closed loop of pings, in which all is well.
func sweepRecord(t *testing.T, clients int) *record.Record {
	t.Helper()
	service, err := sweepTimes()
	if err != nil {
		t.Fatal(err)
	}
	return &record.Record{
		Version: record.Version, Repeat: 1,
		Cell: record.Cell{
			Part: "sweep", Stack: "tcp", Variant: "tcp", Place: record.Place{Workload: "ping", Clients: clients}, Connection: "shared",
			Load: record.Load{Model: "closed", DurationNS: 1e8},
		},
		WindowNS: 1e8,
		Measurement: record.Measurement{
			Requests: 1000, Completed: 1000, InFlight: float64(clients), Active: float64(clients), Service: service,
			WarmUp: record.WarmUp{Settled: true, Method: "MSER-5"},
			Intervals: []record.Interval{
				{StartNS: -5e7, TookNS: 5e7, Requests: 500, SumNS: 5e7},
				{StartNS: 0, TookNS: 5e7, Requests: 500, SumNS: 5e7},
			},
		},
		Connections: record.Connections{Mode: "shared", Want: 1, Opened: 1},
	}
}

// Every figure that may be null is null where it is absent or no number, and zero
// where it is zero, in whatever of the three forms it stands.
func TestEveryNullableFigureHasAZero(t *testing.T) {
	zero := figuresOf(t, filled(func(f reflect.Value) {
		if f.Kind() == reflect.Pointer {
			f.Set(reflect.New(f.Type().Elem()))
		}
	}))
	absent := figuresOf(t, filled(func(f reflect.Value) {
		if f.Kind() == reflect.Struct {
			f.Set(reflect.ValueOf(matrix.Figure{Value: math.NaN()}))
		}
	}))
	some := figuresOf(t, filled(func(f reflect.Value) {
		if f.Kind() == reflect.Pointer {
			f.Set(reflect.New(f.Type().Elem()))
			f = f.Elem()
		}
		if f.Kind() == reflect.Struct {
			f.Set(reflect.ValueOf(matrix.Figure{Value: 7}))
		} else {
			f.SetFloat(7)
		}
	}))
	nullable := 0
	for _, place := range slices.Sorted(maps.Keys(some)) {
		if some[place] != "7" {
			continue
		}
		nullable++
		if zero[place] != "0" || absent[place] != "" {
			t.Errorf("%s is %q where it is 0, and %q where it is not known", place, zero[place], absent[place])
		}
	}
	if nullable < 250 {
		t.Errorf("%d nullable figures were looked at, which are too few", nullable)
	}
}

// filled is a run with one of everything, in which set has set what may be null.
func filled(set func(reflect.Value)) *Run {
	summary := &analysis.Summary{}
	fill(reflect.ValueOf(summary).Elem(), set)
	for i := range summary.Cells {
		summary.Cells[i].Valid = 1
	}
	return &Run{Summary: summary}
}

func fill(v reflect.Value, set func(reflect.Value)) {
	figure := func(t reflect.Type) bool { return t == figureType || t.Kind() == reflect.Float64 }
	switch {
	case v.Type() == figureType || v.Kind() == reflect.Pointer && figure(v.Type().Elem()):
		set(v)
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct && isOfAnalysis(v.Type().Elem()):
		if v.Type().Elem() == reflect.TypeFor[matrix.Interval]() {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), set)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct && isOfAnalysis(v.Type().Elem()):
		switch v.Type().Elem() {
		case reflect.TypeFor[insight.Branch]():
			return // a tree
		case reflect.TypeFor[insight.ProfiledStack]():
			return // places in lists that are empty here
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), set)
	case v.Kind() == reflect.Struct && isOfAnalysis(v.Type()):
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), set)
			}
		}
	}
}

// isOfAnalysis reports whether a type is one of package analysis, or of a package below it.
func isOfAnalysis(t reflect.Type) bool {
	return strings.HasPrefix(t.PkgPath(), reflect.TypeFor[analysis.Summary]().PkgPath())
}
