package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// A Variant is a stack with options, written `stack:key=value,key=value`. Without
// options it is the stack as people usually write it. Variants with equal String
// are equal.
type Variant struct {
	Stack   string
	Options []Setting // sorted by key, each key once
}

// A Setting is one option of a variant.
type Setting struct{ Key, Value string }

// ParseVariant reads `stack` or `stack:key=value,key=value`.
func ParseVariant(text string) (Variant, error) {
	return parseNamed(text, grammar{what: "variant", of: "stack", examples: "`tcp` or `tcp:buffers=pooled`"})
}

// ParseWorkload reads a workload and its options, which are written like those
// of a variant: `users:op=get-user,work=10ms`.
func ParseWorkload(text string) (Variant, error) {
	return parseNamed(text, grammar{what: "workload", of: "workload", examples: "`echo` or `users:op=get-user,work=0s`"})
}

// grammar has the words for errors about a text.
type grammar struct{ what, of, examples string }

func parseNamed(text string, g grammar) (Variant, error) {
	name, options, given := strings.Cut(text, ":")
	if strings.Contains(name, "=") {
		return Variant{}, fmt.Errorf("%s %q: an option without a %s before it; in a YAML list, put a %s that has commas into quotes", g.what, text, g.of, g.what)
	}
	if !isWord(name) {
		return Variant{}, fmt.Errorf("%s %q: a %s's name is lower-case letters, digits and dashes, as in %s", g.what, text, g.of, g.examples)
	}
	v := Variant{Stack: name}
	if !given {
		return v, nil
	}
	for option := range strings.SplitSeq(options, ",") {
		key, value, ok := strings.Cut(option, "=")
		if !ok || !isWord(key) || value == "" {
			return Variant{}, fmt.Errorf("%s %q: %q is not of the form key=value", g.what, text, option)
		}
		if _, twice := v.Get(key); twice {
			return Variant{}, fmt.Errorf("%s %q: %s is set twice", g.what, text, key)
		}
		v.Options = append(v.Options, Setting{key, value})
	}
	slices.SortFunc(v.Options, func(a, b Setting) int { return strings.Compare(a.Key, b.Key) })
	return v, nil
}

// ParseVariants reads variants separated by commas. A part that is key=value
// without a stack's name belongs to the variant before it, so that
// `tcp:buffers=pooled,inflight=50,rest` is two variants.
func ParseVariants(text string) ([]Variant, error) {
	var texts []string
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		beforeEquals, _, isSetting := strings.Cut(part, "=")
		if isSetting && !strings.Contains(beforeEquals, ":") && len(texts) > 0 {
			texts[len(texts)-1] += "," + part
			continue
		}
		texts = append(texts, part)
	}
	variants := make([]Variant, 0, len(texts))
	for _, t := range texts {
		v, err := ParseVariant(t)
		if err != nil {
			return nil, err
		}
		variants = append(variants, v)
	}
	return variants, nil
}

// String writes the variant as ParseVariant reads it.
func (v Variant) String() string {
	var b strings.Builder
	b.WriteString(v.Stack)
	separator := ":"
	for _, s := range v.Options {
		b.WriteString(separator + s.Key + "=" + s.Value)
		separator = ","
	}
	return b.String()
}

// Get returns the value of an option, and whether it is set.
func (v Variant) Get(key string) (string, bool) {
	for _, s := range v.Options {
		if s.Key == key {
			return s.Value, true
		}
	}
	return "", false
}

// With returns the variant with an option added or replaced.
func (v Variant) With(key, value string) Variant {
	v.Options = slices.DeleteFunc(slices.Clone(v.Options), func(s Setting) bool { return s.Key == key })
	v.Options = append(v.Options, Setting{key, value})
	slices.SortFunc(v.Options, func(a, b Setting) int { return strings.Compare(a.Key, b.Key) })
	return v
}

// MarshalText writes the variant as String does.
func (v Variant) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the text of MarshalText.
func (v *Variant) UnmarshalText(text []byte) error { return parseInto(v, text, ParseVariant) }

// isWord reports whether s is lower-case letters, digits and dashes.
func isWord(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
