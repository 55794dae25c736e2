package protocol

import (
	"strings"
	"testing"
)

func TestSelectors(t *testing.T) {
	card := Card{Name: "c1", Labels: map[string]string{"role": "client", "zone": "a"}}
	for text, want := range map[string]struct {
		count   int
		matches bool
		says    string
	}{
		"role=client*8":          {8, true, "role=client*8"},
		"role=client":            {1, true, "role=client"},
		"role=client*":           {0, true, "role=client*"},
		" zone=a , role=client ": {1, true, "role=client,zone=a"},
		"role=client,zone=b*2":   {2, false, "role=client,zone=b*2"},
		"name=c1":                {1, true, "name=c1"},
		"name=c2":                {1, false, "name=c2"},
	} {
		s, err := ParseSelector(text)
		if err != nil || s.Count != want.count || s.Matches(card) != want.matches || s.String() != want.says {
			t.Errorf("%q is %v (%d, matches: %v), %v", text, s, s.Count, s.Matches(card), err)
		}
	}
}

func TestBadSelectors(t *testing.T) {
	for text, want := range map[string]string{
		"": "want labels", "*3": "want labels", "client": "want labels", "role=": "want labels", "role=client*0": "a number of agents",
		"role=client*-1": "a number of agents", "role=client*x": "a number of agents", "role=a,role=b": "twice", "role=a b": "want labels", "role=\x1b[31m": "want labels",
	} {
		if s, err := ParseSelector(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v, %v; want %q", text, s, err, want)
		}
	}
}
