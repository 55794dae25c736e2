// Package lists groups, converts and searches slices in ways that package slices does not offer.
package lists

import "slices"

// GroupBy groups the items with equal keys, in the order in which the keys first appear.
func GroupBy[T any, K comparable](items []T, key func(T) K) [][]T {
	place := map[K]int{}
	var groups [][]T
	for _, item := range items {
		i, seen := place[key(item)]
		if !seen {
			i = len(groups)
			place[key(item)] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], item)
	}
	return groups
}

// Map returns the results of the function for each item.
func Map[A, B any](items []A, of func(A) B) []B {
	all := make([]B, len(items))
	for i, item := range items {
		all[i] = of(item)
	}
	return all
}

// FindOrAdd returns a pointer to the first element for which same is true. If there is none, it
// appends one and returns a pointer to it.
func FindOrAdd[T any](all *[]T, one T, same func(T) bool) *T {
	i := slices.IndexFunc(*all, same)
	if i < 0 {
		i = len(*all)
		*all = append(*all, one)
	}
	return &(*all)[i]
}

// AppendNew appends an item to a list unless the list contains it.
func AppendNew[T comparable](list []T, item T) []T {
	if slices.Contains(list, item) {
		return list
	}
	return append(list, item)
}
