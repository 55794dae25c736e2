package stack

import (
	"fmt"
	"strconv"
	"time"

	"wirelab.dev/internal/scenario"
)

// Count reads an option that is a whole number from 1. Unset is 0.
func Count(v scenario.Variant, key string) (int, error) {
	text, set := v.Get(key)
	if !set {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("variant %s: %s takes a whole number from 1, as in %s=4, not %q", v, key, key, text)
	}
	return n, nil
}

// Span reads an option that is a time above zero. Unset is 0.
func Span(v scenario.Variant, key string) (time.Duration, error) {
	text, set := v.Get(key)
	if !set {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("variant %s: %s takes a time above zero, as in %s=5ms, not %q", v, key, key, text)
	}
	return d, nil
}
