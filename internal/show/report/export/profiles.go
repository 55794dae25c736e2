package export

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/pprof/profile"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/show/report/format"
)

// ProfilesFolder is the folder in a run's directory for profiles in formats of other tools.
const ProfilesFolder = "profiles"

// WriteProfiles writes each profile of a run twice: for pprof (.pb.gz, go tool pprof), and as
// folded stacks (.folded) for speedscope and flamegraph.pl. It passes names of files
// in ProfilesFolder to create.
func WriteProfiles(s *analysis.Summary, create func(name string) (io.WriteCloser, error)) error {
	for i := range s.Profiles {
		p := &s.Profiles[i]
		for _, form := range []struct {
			ending string
			write  func(io.Writer, *insight.Profile) error
		}{{".pb.gz", writePprof}, {".folded", writeFolded}} {
			name := profileName(p) + form.ending
			file, err := create(name)
			if err != nil {
				return err
			}
			if err := errors.Join(form.write(file, p), file.Close()); err != nil {
				return fmt.Errorf("write %s: %w", name, err)
			}
		}
	}
	return nil
}

// profileName returns a name such as compare-grpc-conns-4-echo-64B-c1.server.cpu.
func profileName(p *insight.Profile) string {
	cell := fmt.Sprintf("%s-%s-%s-%s-c%d", p.Part, p.Variant, p.Workload, p.Payload.Key(), p.Clients)
	plain := func(r rune) rune {
		if strings.ContainsRune("/:,= \\", r) {
			return '-'
		}
		return r
	}
	if p.End != "" {
		cell += "." + p.End
	}
	return strings.Map(plain, cell) + "." + p.Kind
}

// writePprof writes the format of github.com/google/pprof/proto/profile.proto. The category is a
// label: go tool pprof -tagfocus category=allocation.
func writePprof(w io.Writer, p *insight.Profile) error {
	kind, unit := map[string]string{
		insight.CPUProfile: "cpu", insight.OffCPUProfile: "waiting", insight.AllocProfile: "alloc_space",
		insight.SlowProfile: "wall", insight.MedianProfile: "wall", // equal, as -diff_base needs
	}[p.Kind], "nanoseconds"
	if p.Kind == insight.AllocProfile {
		unit = "bytes"
	}
	out := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: kind, Unit: unit}},
		Comments:   []string{"wirelab: " + profileName(p)},
	}
	mappings := map[string]*profile.Mapping{}
	locations := make([]*profile.Location, len(p.Functions))
	for i, f := range p.Functions {
		in := mappings[f.In]
		if in == nil {
			in = &profile.Mapping{ID: uint64(len(mappings) + 1), File: f.In, HasFunctions: true}
			mappings[f.In] = in
			out.Mapping = append(out.Mapping, in)
		}
		function := &profile.Function{ID: uint64(i + 1), Name: f.Name, SystemName: f.Name}
		locations[i] = &profile.Location{ID: uint64(i + 1), Mapping: in, Line: []profile.Line{{Function: function}}}
		out.Function, out.Location = append(out.Function, function), append(out.Location, locations[i])
	}
	for _, s := range p.Stacks {
		sample := &profile.Sample{
			Value: []int64{int64(s.Weight*p.Total + 0.5)},
			Label: map[string][]string{"category": {p.Categories[s.Category]}},
		}
		for i := len(s.Frames) - 1; i >= 0; i-- { // pprof lists the innermost frame first
			sample.Location = append(sample.Location, locations[s.Frames[i]])
		}
		out.Sample = append(out.Sample, sample)
	}
	return out.Write(w)
}

// writeFolded writes one line per stack: its functions, outermost first, and its weight. The
// kernel's functions end in _[k], as flame graph scripts expect.
func writeFolded(w io.Writer, p *insight.Profile) error {
	var text strings.Builder
	for _, s := range p.Stacks {
		for i, frame := range s.Frames {
			if i > 0 {
				text.WriteByte(';')
			}
			f := p.Functions[frame]
			text.WriteString(strings.ReplaceAll(f.Name, ";", ":"))
			if f.In == "kernel" {
				text.WriteString("_[k]")
			}
		}
		fmt.Fprintf(&text, " %.0f\n", s.Weight*p.Total)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// WriteAllocationTrees prints the call trees of each profiled end, with callees below callers.
func WriteAllocationTrees(w io.Writer, s *analysis.Summary) error {
	var out strings.Builder
	if len(s.Allocations) == 0 {
		out.WriteString("No trial was profiled for allocations.\n")
	}
	for i := range s.Allocations {
		a := &s.Allocations[i]
		if i > 0 {
			out.WriteByte('\n')
		}
		fmt.Fprintf(&out, "%s, %s, the %s: %s in %s objects per call\n", a.Part, a.Variant, a.End, format.ByteSize(int(a.Bytes)), format.PlainNumber(a.Objects))
		writeBranches(&out, a.Tree, "")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func writeBranches(out *strings.Builder, branches []insight.Branch, indent string) {
	for _, b := range branches {
		names := lists.Map(b.Functions, format.ShortFunction)
		fmt.Fprintf(out, "%5.1f%% %5.1f%%  %s%s\n", 100*b.Bytes, 100*b.Objects, indent, strings.Join(names, " → "))
		writeBranches(out, b.Calls, indent+"  ")
	}
}
