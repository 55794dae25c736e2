package sequences

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// judge plays a script in all pairings. If it differs from grpc-go's, it must not differ without the
// steps that show the differences that the page names. If asked, judge counts which of them it shows.
func judge(t *testing.T, s *script, countSeen bool) {
	t.Helper()
	want := play(t, original, s)
	for _, p := range pairings {
		if p.compareEvents(want, play(t, p, s)) == "" {
			continue
		}
		named := p.page.differences
		differs := func(s *script) bool { return compare(t, p, s) != "" }
		if differs(without(t, s, named)) {
			small := without(t, shrink(s, func(s *script) bool { return differs(without(t, s, named)) }), named)
			t.Errorf("%s differs from gg in a way that the page of %s does not name. In short:\n%v%s", p.name, p.page.library, small, compare(t, p, small))
			continue
		}
		if countSeen {
			for _, d := range fewest(t, s, named, differs) {
				d.seen++
			}
		}
	}
}

// fewest returns those of the differences that a script shows.
func fewest(t *testing.T, s *script, named []*difference, differs func(*script) bool) []*difference {
	t.Helper()
	shown := named
	for _, d := range named {
		others := slices.DeleteFunc(slices.Clone(shown), func(other *difference) bool { return other == d })
		if !differs(without(t, s, others)) {
			shown = others
		}
	}
	return shown
}

// without returns the script without the steps that show the differences.
func without(t *testing.T, s *script, all []*difference) *script {
	t.Helper()
	for _, d := range all {
		var events []event
		s = d.without(s, func(of step) string {
			if events == nil {
				events = play(t, original, s)
			}
			i := slices.IndexFunc(events, func(e event) bool { return e.step == of.number && e.who == of.who })
			if i < 0 { // the end never comes to this step
				return ""
			}
			return events[i].text
		})
	}
	return s
}

// compare plays a script in a pairing and between grpc-go's ends, and describes what differs.
func compare(t *testing.T, p pairing, s *script) string {
	t.Helper()
	return p.compareEvents(play(t, original, s), play(t, p, s))
}

// compareEvents describes how the events of a pairing differ from grpc-go's.
func (p pairing) compareEvents(want, got []event) string {
	if p.hidden != nil {
		want = slices.Clone(want)
		for i, e := range want {
			want[i].text = p.hidden.ReplaceAllString(e.text, "")
		}
	}
	return describe(original.name, want, p.name, got)
}

// describe returns the events that only one of two plays has.
func describe(name string, events []event, otherName string, others []event) string {
	var b strings.Builder
	list := func(name string, events, others []event) {
		for _, e := range events {
			if !slices.Contains(others, e) {
				fmt.Fprintf(&b, "  %s: %2d %s %s\n", name, e.step, e.who, e.text)
			}
		}
	}
	list(name, events, others)
	list(otherName, others, events)
	return b.String()
}

// show prints a script and its events in all pairings.
func show(t *testing.T, s *script) {
	t.Helper()
	t.Log(s)
	for _, p := range append([]pairing{original}, pairings...) {
		t.Logf("%s:\n%s", p.name, describe(p.name, play(t, p, s), "", nil))
	}
}

// shrink drops steps, metadata and bytes from a script while it stays bad.
func shrink(s *script, bad func(*script) bool) *script {
	for {
		all := simpler(s)
		i := slices.IndexFunc(all, bad)
		if i < 0 {
			return s
		}
		s = all[i]
	}
}

// simpler returns the scripts that are one change simpler. Steps keep their numbers.
func simpler(s *script) (all []*script) {
	for i, next := range s.steps {
		if next.do != finish && next.do != invoke && next.do != hangUp {
			c := s.clone()
			c.steps = slices.Delete(c.steps, i, i+1)
			all = append(all, c)
		}
	}
	changed := func(apply func(*script)) {
		c := s.clone()
		apply(c)
		all = append(all, c)
	}
	for key := range s.request {
		changed(func(c *script) { delete(c.request, key) })
	}
	if s.deadline {
		changed(func(c *script) { c.deadline = false })
	}
	for i, next := range s.steps {
		for key := range next.md {
			changed(func(c *script) {
				c.steps[i].md = next.md.Copy()
				delete(c.steps[i].md, key)
			})
		}
		if next.size > 1 {
			changed(func(c *script) { c.steps[i].size = 1 })
		}
		if next.ending > 0 {
			changed(func(c *script) { c.steps[i].ending = 0 })
		}
	}
	return all
}
