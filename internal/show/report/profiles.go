package report

import (
	"math"
	"slices"

	"wirelab.dev/internal/judge/analysis/insight"
)

// Profiles holds the profiles of a run, for its page. There may be dozens, and most of
// their functions are the same, so it lists each name once.
type Profiles struct {
	Categories []string                   `json:"categories"`
	Functions  []insight.ProfiledFunction `json:"functions"`
	List       []PackedProfile            `json:"list"`
}

// A PackedProfile is a profile whose stacks are one list of numbers.
type PackedProfile struct {
	insight.Profile
	// Packed has for each stack: how many outermost frames it shares with the stack
	// before it, how many more it has, these, its category, and its weight in
	// thousand-millionths. Frames and categories are places in the lists of Profiles.
	Packed []int `json:"stacks"`
}

// weightScale makes a weight a whole number. A stack that rounding drops has less than a
// thousand-millionth of all.
const weightScale = 1e9

func packProfiles(profiles []insight.Profile) Profiles {
	categories, functions := places[string]{}, places[insight.ProfiledFunction]{}
	packed := Profiles{}
	for _, p := range profiles {
		category, function := categories.of(p.Categories), functions.of(p.Functions)
		stacks := make([]insight.ProfiledStack, len(p.Stacks))
		for i, s := range p.Stacks {
			frames := make([]int, len(s.Frames))
			for depth, frame := range s.Frames {
				frames[depth] = function[frame]
			}
			stacks[i] = insight.ProfiledStack{Frames: frames, Category: category[s.Category], Weight: s.Weight}
		}
		packed.List = append(packed.List, PackedProfile{Profile: p, Packed: packStacks(stacks)})
	}
	packed.Categories, packed.Functions = categories.list, functions.list
	return packed
}

// packStacks sorts the stacks, so that each shares much with the one before it.
func packStacks(stacks []insight.ProfiledStack) []int {
	slices.SortStableFunc(stacks, func(a, b insight.ProfiledStack) int { return slices.Compare(a.Frames, b.Frames) })
	var packed, before []int
	for _, s := range stacks {
		shared := 0
		for shared < min(len(before), len(s.Frames)) && before[shared] == s.Frames[shared] {
			shared++
		}
		packed = append(packed, shared, len(s.Frames)-shared)
		packed = append(packed, s.Frames[shared:]...)
		packed = append(packed, s.Category, int(math.Round(weightScale*s.Weight)))
		before = s.Frames
	}
	return packed
}

// A places is a list without repetitions.
type places[T comparable] struct {
	list []T
	at   map[T]int
}

// of returns the places of the values, which are added where they are not in the list.
func (p *places[T]) of(values []T) []int {
	if p.at == nil {
		p.at = map[T]int{}
	}
	found := make([]int, len(values))
	for i, value := range values {
		place, known := p.at[value]
		if !known {
			place = len(p.list)
			p.at[value], p.list = place, append(p.list, value)
		}
		found[i] = place
	}
	return found
}
