package report

import (
	"math"
	"slices"
	"testing"

	"wirelab.dev/internal/judge/analysis/insight"
)

// What the page unpacks is what was packed, with one list of names for all profiles.
func TestPackedProfiles(t *testing.T) {
	profiles := fixtureProfiles()
	packed := packProfiles(profiles)
	if got := len(packed.List); got != len(profiles) {
		t.Fatalf("%d profiles, want %d", got, len(profiles))
	}
	for i, p := range profiles {
		got := unpackedStacks(t, packed, packed.List[i].Packed)
		if len(got) != len(p.Stacks) {
			t.Errorf("profile %d has %d stacks, want %d", i, len(got), len(p.Stacks))
		}
		for _, s := range p.Stacks {
			want := namedStack{category: p.Categories[s.Category], weight: s.Weight}
			for _, frame := range s.Frames {
				want.frames = append(want.frames, p.Functions[frame])
			}
			if !slices.ContainsFunc(got, want.equal) {
				t.Errorf("profile %d lacks %v", i, want)
			}
		}
	}
	functions := slices.Clone(packed.Functions)
	slices.SortFunc(functions, func(a, b insight.ProfiledFunction) int {
		return slices.Compare([]string{a.Name, a.In}, []string{b.Name, b.In})
	})
	if unique := slices.Compact(functions); len(unique) != len(packed.Functions) {
		t.Errorf("%d functions; %d differ", len(packed.Functions), len(unique))
	}
	data, err := encode(packProfiles(nil), forPage)
	if want := `{"categories":[],"functions":[],"list":[]}`; err != nil || string(data) != want {
		t.Errorf("without profiles %s, %v, want %s", data, err, want)
	}
}

type namedStack struct {
	frames   []insight.ProfiledFunction
	category string
	weight   float64
}

func (s namedStack) equal(other namedStack) bool {
	return slices.Equal(s.frames, other.frames) && s.category == other.category && math.Abs(s.weight-other.weight) < 1/weightScale
}

func unpackedStacks(t *testing.T, from Profiles, packed []int) []namedStack {
	t.Helper()
	var all []namedStack
	var frames []insight.ProfiledFunction
	for len(packed) > 0 {
		shared, further := packed[0], packed[1]
		frames = slices.Clone(frames[:shared])
		for _, frame := range packed[2 : 2+further] {
			frames = append(frames, from.Functions[frame])
		}
		packed = packed[2+further:]
		all = append(all, namedStack{frames, from.Categories[packed[0]], float64(packed[1]) / weightScale})
		packed = packed[2:]
	}
	return all
}

func BenchmarkPackProfiles(b *testing.B) {
	profiles := []insight.Profile{manyStacks("grpc", insight.ServerEnd, 100_000)}
	for b.Loop() {
		data, err := encode(packProfiles(profiles), forPage)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(data)), "B/page")
	}
}
