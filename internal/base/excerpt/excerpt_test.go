package excerpt

import "testing"

func TestExcerpts(t *testing.T) {
	for _, test := range []struct{ text, start, end string }{
		{"", "", ""}, {"abc", "abc", "abc"}, {"abcd", "abc…", "…bcd"}, {"äöüß", "äöü…", "…öüß"}, {"a\xffcd", "a\xffc…", "…\xffcd"},
	} {
		if start, end := Start(test.text, 3), End(test.text, 3); start != test.start || end != test.end {
			t.Errorf("%q: %q and %q, want %q and %q", test.text, start, end, test.start, test.end)
		}
	}
}
