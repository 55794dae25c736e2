package crowd

import (
	"reflect"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/run/worker"
)

// notMerged are the figures of a client that one of several does not have, each with why.
var notMerged = map[string]string{
	"Search":             "a search cannot be one of several",
	"CensusFailed":       "another part's census is there",
	"CallsWritten":       "the measurement has been worked out of each part's file",
	"Allowance.CPUs":     "CPUs of several machines have the same numbers",
	"Course.P99NS[]":     "of service times: intervals have responses",
	"Course.ClientCPUNS": "the parts' are of other stretches than the intervals",
	"Course.ServerCPUNS": "likewise; the lab adds the server's",
}

// A figure that is added to what clients measure, and that Merge does not know, would silently
// be none of a group's.
func TestMergeKnowsEveryFigure(t *testing.T) {
	part := func() worker.ClientPart {
		r := &worker.ClientResult{}
		fill(t, reflect.ValueOf(r).Elem())
		r.Search = nil
		r.Slices = r.Slices[:1] // with the part's one request
		r.BeginNS, r.EndNS, r.PausedNS = 1e9, 2e9, 1e6
		r.Connections.Mode = "pool:2"
		return worker.ClientPart{Agent: "a", Result: worker.Result{Client: r}}
	}
	interval := worker.Interval{StartNS: 5e8, TookNS: 1e9, Ended: 200, Failed: 1, Histogram: coarse(t, 200)}
	merged, err := Merge([]worker.ClientPart{part(), part()}, [][]worker.Interval{{interval}, {interval}})
	if err != nil {
		t.Fatal(err)
	}
	empty := map[string]bool{}
	findEmpty(reflect.ValueOf(*merged), "", empty)
	for path := range empty {
		if notMerged[path] == "" {
			t.Errorf("%s is nothing when clients are merged: merge it, or say in notMerged why not", path)
		}
	}
	for path := range notMerged {
		if !empty[path] {
			t.Errorf("%s is merged, and notMerged says that it is not", path)
		}
	}
}

// fill sets every figure to something.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	if d, is := v.Addr().Interface().(*latency.Distribution); is {
		r := latency.NewRecorder()
		defer r.Close()
		r.Record(5)
		var err error
		if *d, err = latency.NewHistogram(r).Distribution(); err != nil {
			t.Fatal(err)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0))
		fill(t, v.Index(1))
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1)
	default:
		t.Fatalf("a figure is a %s: fill it here", v.Type())
	}
}

// findEmpty finds the figures that are nothing, of lists in their first element.
func findEmpty(v reflect.Value, path string, found map[string]bool) {
	switch {
	case v.IsZero():
		found[path] = true
	case v.Type() == reflect.TypeFor[latency.Distribution]():
	case v.Kind() == reflect.Pointer:
		findEmpty(v.Elem(), path, found)
	case v.Kind() == reflect.Slice:
		findEmpty(v.Index(0), path+"[]", found)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name := field.Name
			switch {
			case field.Anonymous:
				name = path
			case path != "":
				name = path + "." + name
			}
			findEmpty(v.Field(i), name, found)
		}
	}
}

// coarse returns the histogram of an interval event that has count durations.
func coarse(t *testing.T, count int64) string {
	t.Helper()
	h := hdrhistogram.New(256, 1<<36-1, 2)
	if err := h.RecordValues(100, count); err != nil {
		t.Fatal(err)
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
