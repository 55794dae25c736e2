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
