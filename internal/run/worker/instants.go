package worker

import (
	"cmp"
	"slices"
)

// Instants holds the begin of each call and the time that it took.
type Instants [][2]int64

// MostInstants bounds the instants that a worker keeps: the last seconds of the fastest wire.
const MostInstants = 1 << 16

// Plus returns the instants of both in order, as far as MostInstants allows.
func (i Instants) Plus(other Instants) Instants {
	all := slices.Concat(i, other)
	slices.SortFunc(all, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	return all[:min(len(all), MostInstants)]
}

// Within returns the calls that lie between two instants.
func (i Instants) Within(begin, end int64) Instants {
	var found Instants
	for _, one := range i {
		if begin <= one[0] && one[0]+one[1] <= end {
			found = append(found, one)
		}
	}
	return found
}

func (i Instants) shift(by int64) {
	for n := range i {
		i[n][0] += by
	}
}
