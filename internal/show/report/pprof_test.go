package report

import (
	"bytes"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/show/report/export"
)

// TestProfilesOfCalls wants profiles of slow and median calls that another tool can subtract: of one type, and in
// nanoseconds per call.
func TestProfilesOfCalls(t *testing.T) {
	files := map[string]*bytes.Buffer{}
	if err := export.WriteProfiles(fixtureInsights(t, insides...).Summary, func(name string) (io.WriteCloser, error) {
		files[name] = &bytes.Buffer{}
		return closer{files[name]}, nil
	}); err != nil {
		t.Fatal(err)
	}
	var both []*profile.Profile
	for _, kind := range []string{"slow", "median"} {
		file := files["matrix-grpc-echo-64B-c1."+kind+".pb.gz"]
		if file == nil || files["matrix-tcp-echo-64B-c1."+kind+".pb.gz"] != nil {
			t.Fatalf("%s calls of grpc have no profile, or those of tcp have one: %q", kind, slices.Sorted(maps.Keys(files)))
		}
		p, err := profile.Parse(file)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, p)
	}
	both[1].Scale(-1)
	difference, err := profile.Merge(both)
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, s := range difference.Sample {
		if s.Location[0].Line[0].Function.Name != "sync.(*Mutex).Lock" && s.Value[0] != 0 {
			t.Errorf("%v", s)
		}
		sum += s.Value[0]
	}
	if sum != 114_000 { // what is planted in slow calls
		t.Errorf("a slow call takes %d ns longer, want 114,000", sum)
	}
}

type closer struct{ *bytes.Buffer }

func (closer) Close() error { return nil }

// TestProfilesForOtherTools reads back what was written.
func TestProfilesForOtherTools(t *testing.T) {
	run := &Run{Summary: &analysis.Summary{}}
	run.Summary.Profiles = []insight.Profile{{
		Part: "compare", Variant: "grpc:conns=4,tls=on", Place: record.Place{Workload: "echo", Payload: record.Payload{RequestBytes: 64, ResponseBytes: 4096}, Clients: 50},
		End: insight.ServerEnd, Kind: insight.CPUProfile, Unit: "ns", Total: 1000,
		Categories: []string{"protocol layer", "network"},
		Functions:  []insight.ProfiledFunction{{Name: "main"}, {Name: "tcp_sendmsg", In: "kernel"}},
		Stacks:     []insight.ProfiledStack{{Frames: []int{0}, Weight: 0.25}, {Frames: []int{0, 1}, Category: 1, Weight: 0.75}},
	}}
	files := map[string]*bytes.Buffer{}
	if err := export.WriteProfiles(run.Summary, func(name string) (io.WriteCloser, error) {
		files[name] = &bytes.Buffer{}
		return closer{files[name]}, nil
	}); err != nil {
		t.Fatal(err)
	}
	const name = "compare-grpc-conns-4-tls-on-echo-64B-4KiB-c50.server.cpu"
	if got, want := files[name+".folded"].String(), "main 250\nmain;tcp_sendmsg_[k] 750\n"; got != want {
		t.Errorf("folded: %q, want %q", got, want)
	}
	read, err := profile.Parse(files[name+".pb.gz"])
	if err != nil {
		t.Fatal(err)
	}
	if err := read.CheckValid(); err != nil {
		t.Fatal(err)
	}
	sample := read.Sample[1]
	if sample.Value[0] != 750 || sample.Location[0].Line[0].Function.Name != "tcp_sendmsg" || sample.Location[0].Mapping.File != "kernel" ||
		strings.Join(sample.Label["category"], "") != "network" || read.SampleType[0].Unit != "nanoseconds" {
		t.Errorf("pprof: %v", read)
	}
}
