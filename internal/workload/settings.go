package workload

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"wirelab.dev/internal/scenario"
)

// Option is one key that may be set behind a workload's name.
type Option struct {
	Key     string
	Values  []string // the values it takes; empty where any value of the form that Help tells is taken
	Default string
	Help    string // one line, for `wirelab list`
}

// Settings reads what is set, by the options that declare it. What is not set
// has its default. The first thing that is wrong is kept for Err, so that all
// settings can be read before it is asked for.
type Settings struct {
	workload string
	values   map[string]string
	set      []scenario.Setting
	err      error
}

// Read begins to read the parameters' settings.
func Read(w Workload, p Parameters) *Settings {
	s := &Settings{workload: w.Name(), values: map[string]string{}, set: p.Settings}
	var keys []string
	for _, o := range w.Options() {
		s.values[o.Key] = o.Default
		keys = append(keys, o.Key)
	}
	for _, set := range p.Settings {
		at := slices.Index(keys, set.Key)
		if at < 0 {
			s.fail(unknown(w.Name(), set.Key, keys))
			continue
		}
		if values := w.Options()[at].Values; len(values) > 0 && !slices.Contains(values, set.Value) {
			s.fail(fmt.Errorf("%s=%s: %s", set.Key, set.Value, scenario.Suggest(set.Value, values)))
		}
		s.values[set.Key] = set.Value
	}
	return s
}

func unknown(workload, key string, keys []string) error {
	if len(keys) == 0 {
		return fmt.Errorf("%s has no options", workload)
	}
	return fmt.Errorf("%s has no option %q; %s", workload, key, scenario.Suggest(key, keys))
}

// Err is the first thing that was wrong.
func (s *Settings) Err() error {
	if s.err == nil {
		return nil
	}
	return fmt.Errorf("workload %s: %w", scenario.Variant{Stack: s.workload, Options: s.set}, s.err)
}

func (s *Settings) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// Has tells whether the key is set.
func (s *Settings) Has(key string) bool {
	return slices.ContainsFunc(s.set, func(one scenario.Setting) bool { return one.Key == key })
}

// Apart says that only one of two keys can be set.
func (s *Settings) Apart(a, b string) {
	if s.Has(a) && s.Has(b) {
		s.fail(fmt.Errorf("%s and %s exclude each other", a, b))
	}
}

// Text is a key's value.
func (s *Settings) Text(key string) string { return s.values[key] }

// Duration is a time from 0.
func (s *Settings) Duration(key string) time.Duration {
	d, err := time.ParseDuration(s.values[key])
	if err != nil || d < 0 {
		s.fail(fmt.Errorf("%s takes a time, as in %s=5ms, not %q", key, key, s.values[key]))
	}
	return d
}

// Count is a whole number within bounds.
func (s *Settings) Count(key string, least, most int) int {
	n, err := strconv.Atoi(s.values[key])
	if err != nil || n < least || n > most {
		s.fail(fmt.Errorf("%s takes a whole number from %d to %d, not %q", key, least, most, s.values[key]))
	}
	return n
}

// Bytes is a size from 1.
func (s *Settings) Bytes(key string, most int) int {
	size, err := scenario.ParseSize(s.values[key])
	if err == nil && (size < 1 || int(size) > most) {
		err = fmt.Errorf("want 1 B to %v, not %v", scenario.Size(most), size)
	}
	if err != nil {
		s.fail(fmt.Errorf("%s: %w", key, err))
	}
	return int(size)
}

// Parse reads a setting whose form only the workload knows.
func (s *Settings) Parse(key string, parse func(string) error) {
	if err := parse(s.values[key]); err != nil {
		s.fail(fmt.Errorf("%s: %w", key, err))
	}
}
