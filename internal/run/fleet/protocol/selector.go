package protocol

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Selector says which agents are wanted, and how many of them: role=client,zone=a*8.
type Selector struct {
	Labels map[string]string
	Count  int // 0: all that there are
}

// nameLabel stands for an agent's name.
const nameLabel = "name"

// ParseSelector reads a selector. Without a count it wants one agent, with a * alone all.
func ParseSelector(text string) (Selector, error) {
	labels, count, counted := strings.Cut(text, "*")
	s := Selector{Count: 1}
	var err error
	if s.Labels, err = ParseLabels(labels); err != nil {
		return s, err
	}
	if len(s.Labels) == 0 {
		return s, fmt.Errorf("%q: want labels, as in role=client*8", text)
	}
	switch {
	case counted && count == "":
		s.Count = 0
	case counted:
		if s.Count, err = strconv.Atoi(count); err != nil || s.Count < 1 {
			return s, fmt.Errorf("%q: found %q behind the *: want how many agents, from 1, or nothing for all", text, count)
		}
	}
	return s, nil
}

// ParseLabels reads role=client,zone=a.
func ParseLabels(text string) (map[string]string, error) {
	labels := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || value == "" || strings.ContainsFunc(pair, isOdd) {
			return nil, fmt.Errorf("found %q: want labels, as in role=client,zone=a", pair)
		}
		if earlier, twice := labels[key]; twice {
			return nil, fmt.Errorf("the label %s is there twice: %s and %s", key, earlier, value)
		}
		labels[key] = value
	}
	return labels, nil
}

// isOdd reports whether a character is not for labels.
func isOdd(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(`*" `, r) }

// Matches reports whether an agent has all labels.
func (s Selector) Matches(c Card) bool {
	for key, value := range s.Labels {
		if c.Labels[key] != value && (key != nameLabel || c.Name != value) {
			return false
		}
	}
	return true
}

func (s Selector) String() string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		pairs = append(pairs, key+"="+s.Labels[key])
	}
	text := strings.Join(pairs, ",")
	switch s.Count {
	case 0:
		return text + "*"
	case 1:
		return text
	}
	return text + "*" + strconv.Itoa(s.Count)
}
