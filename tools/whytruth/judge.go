package main

import (
	"regexp"
	"slices"
	"strings"
)

// The scores of an explanation.
const (
	right   = "right"
	wrong   = "wrong"
	unknown = "unknown"
)

var (
	// The names of the cells, which may have a right word, come before the measured difference: (+47 %), (−7 % to +19 %).
	measuredDifference = regexp.MustCompile(`^.*?\([+−-][\d.,]+\s?%( to [+−-]?[\d.,]+\s?%)?\)`)
	// A list of settings names no cause.
	settings = regexp.MustCompile(`differs? in [^.;]*`)

	admissions = []string{
		"not prove", "not proven", "not known", "unknown", "not know", "no cause", "no single cause",
		"cannot tell", "cannot be told", "not measured", "too few", "nothing explains",
	}
)

// judge scores a sentence by the words of its plant. An explanation that names a cause has at least one in its
// JSON output.
func (p *plantedCause) judge(sentence string, namesCause bool) string {
	where := sentence
	for _, cell := range []map[string]any{p.Both, p.A, p.B} {
		for _, key := range []string{"stack", "workload"} {
			// If too few trials are valid, the sentence has no measured difference.
			if name, is := cell[key].(string); is && strings.Contains(name, ":") {
				where = strings.ReplaceAll(where, name, "")
			}
		}
	}
	if !p.Equal { // the words for no difference come before the difference
		where = settings.ReplaceAllString(measuredDifference.ReplaceAllString(where, ""), "")
	}
	switch {
	case hasAny(where, p.Says):
		return right
	case !namesCause, hasAny(sentence, admissions):
		return unknown
	}
	return wrong
}

// hasAny says whether a sentence has one of the phrases at the beginning of a word.
func hasAny(sentence string, phrases []string) bool {
	return slices.ContainsFunc(phrases, func(phrase string) bool {
		return regexp.MustCompile(`(?i)(^|[^\pL\pN])` + regexp.QuoteMeta(strings.TrimSpace(phrase))).MatchString(sentence)
	})
}
