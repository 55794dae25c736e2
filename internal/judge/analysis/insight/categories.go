package insight

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"wirelab.dev/internal/data/record"
)

// Unclassified is the category of stacks that no rule matches.
const Unclassified = "unclassified"

// DefaultCategories holds the text of the built-in table.
//
//go:embed categories.yaml
var DefaultCategories []byte

// UsualCategories returns the default table.
var UsualCategories = sync.OnceValue(func() *Categories {
	table, err := ParseCategories(DefaultCategories)
	if err != nil {
		panic("categories.yaml: " + err.Error()) // the table is built in and tested
	}
	return table
})

// Categories sort call stacks by what they do.
type Categories struct {
	CPU    []Rule `yaml:"cpu"`
	OffCPU []Rule `yaml:"offcpu"`
}

// A Rule assigns a category to the stacks of some functions.
type Rule struct {
	Category  string   `yaml:"category"`
	In        string   `yaml:"in"`
	Functions []string `yaml:"functions"`

	matches *regexp.Regexp
}

// ParseCategories reads a table.
func ParseCategories(text []byte) (*Categories, error) {
	var c Categories
	if err := yaml.UnmarshalWithOptions(text, &c, yaml.Strict()); err != nil {
		return nil, err
	}
	for _, table := range []struct {
		name  string
		rules []Rule
	}{{"cpu", c.CPU}, {"offcpu", c.OffCPU}} {
		if len(table.rules) == 0 {
			return nil, fmt.Errorf("%s: the table has no rules", table.name)
		}
		for i := range table.rules {
			if err := table.rules[i].compile(); err != nil {
				return nil, fmt.Errorf("%s, rule %d: %w", table.name, i+1, err)
			}
		}
	}
	return &c, nil
}

// The places that Rule.In may name.
const (
	inKernel  = record.InKernel
	inProgram = "program"
)

func (r *Rule) compile() (err error) {
	switch {
	case r.Category == "" || r.Category == Unclassified:
		return fmt.Errorf("category: %q: want a name", r.Category)
	case r.In != "" && r.In != inKernel && r.In != inProgram:
		return fmt.Errorf("in: %q: want kernel, program, or nothing for both", r.In)
	case len(r.Functions) == 0:
		return fmt.Errorf("functions: the rule of %q has no functions", r.Category)
	}
	for _, pattern := range r.Functions { // one by one, so that an error names the pattern
		if _, err := regexp.Compile(pattern); err != nil {
			return fmt.Errorf("functions: %w", err)
		}
	}
	r.matches, err = regexp.Compile("^(?:" + strings.Join(r.Functions, "|") + ")")
	return err
}

// sorter finds the categories of stacks that share frames.
type sorter struct {
	rules []Rule
	known map[record.Frame]int // index of a frame's rule, from 1; 0: no rule
}

func newSorter(rules []Rule) *sorter { return &sorter{rules, map[record.Frame]int{}} }

// of returns the category of a stack, whose frames start with the outermost.
func (s *sorter) of(stack []record.Frame) string {
	for i := len(stack) - 1; i >= 0; i-- {
		if place := s.rule(stack[i]); place > 0 {
			return s.rules[place-1].Category
		}
	}
	return Unclassified
}

func (s *sorter) rule(frame record.Frame) int {
	place, known := s.known[frame]
	if known {
		return place
	}
	for i, rule := range s.rules {
		kernel := frame.In == record.InKernel
		if (rule.In == inKernel && !kernel) || (rule.In == inProgram && kernel) {
			continue
		}
		if rule.matches.MatchString(frame.Function) {
			place = i + 1
			break
		}
	}
	s.known[frame] = place
	return place
}
