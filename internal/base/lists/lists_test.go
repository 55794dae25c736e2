package lists_test

import (
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/base/lists"
)

func TestGroupByKeepsTheOrderOfTheKeys(t *testing.T) {
	groups := lists.GroupBy([]string{"b1", "a1", "b2", "c1", "a2"}, func(s string) byte { return s[0] })
	if got := strings.Join(lists.Map(groups, func(g []string) string { return strings.Join(g, "+") }), " "); got != "b1+b2 a1+a2 c1" {
		t.Errorf("groups: %s", got)
	}
}

func TestFindOrAddReturnsTheElementItself(t *testing.T) {
	all := []int{1, 2}
	*lists.FindOrAdd(&all, 5, func(n int) bool { return n == 2 }) = 3
	*lists.FindOrAdd(&all, 5, func(n int) bool { return n == 9 }) = 6
	if !slices.Equal(all, []int{1, 3, 6}) {
		t.Errorf("found or added: %v", all)
	}
}
