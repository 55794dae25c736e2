package host

import (
	"slices"
	"testing"
)

func TestSharedPlacement(t *testing.T) {
	p := Placement{Server: []int{3}, Client: []int{0, 1}}.Shared()
	if want := []int{0, 1, 3}; !slices.Equal(p.Server, want) || !slices.Equal(p.Client, want) {
		t.Errorf("shared: %+v, want %v for both", p, want)
	}
}

func TestOneEachKeepsOneCPUOfEachEnd(t *testing.T) {
	whole := Placement{Server: []int{3}, Client: []int{0, 1}}
	if p := whole.OneEach(); !slices.Equal(p.Server, []int{3}) || !slices.Equal(p.Client, []int{0}) || len(whole.Client) != 2 {
		t.Errorf("found %+v of %+v", p, whole)
	}
	if p := (Placement{}).OneEach(); len(p.Server)+len(p.Client) != 0 {
		t.Errorf("found %+v of no CPUs", p)
	}
}
