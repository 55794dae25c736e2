// Package sum adds up figures that may be absent, and merges lists by a key. A type that can be
// summed has a Plus method beside its fields. Package sumtest tests that Plus uses every field.
package sum

import (
	"cmp"
	"slices"
)

// An Addend can be added to another value of its type. Plus must not change its operands.
type Addend[T any] interface{ Plus(other T) T }

// AddPresent returns the sum of two figures. It ignores a nil figure.
func AddPresent[T Addend[T]](a, b *T) *T {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return new((*a).Plus(*b))
}

// AddIfBoth returns the sum of two figures, or nil if one of them is nil.
func AddIfBoth[T Addend[T]](a, b *T) *T {
	if a == nil || b == nil {
		return nil
	}
	return new((*a).Plus(*b))
}

// AddIntsIfBoth returns a + b, or nil if a or b is nil.
func AddIntsIfBoth(a, b *int64) *int64 {
	if a == nil || b == nil {
		return nil
	}
	return new(*a + *b)
}

// ByKey returns the elements of both lists, in the order in which their keys first appear.
// Elements with equal keys are added up.
func ByKey[E Addend[E], K comparable](a, b []E, key func(E) K) []E {
	all := slices.Clone(a)
	at := make(map[K]int, len(a))
	for i, one := range a {
		at[key(one)] = i
	}
	for _, one := range b {
		if i, known := at[key(one)]; known {
			all[i] = all[i].Plus(one)
		} else {
			at[key(one)] = len(all)
			all = append(all, one)
		}
	}
	return all
}
