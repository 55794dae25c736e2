package insight

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"wirelab.dev/internal/base/pattern"
	"wirelab.dev/internal/data/record"
)

// Unclassified is the category of stacks that no rule matches.
const Unclassified = "unclassified"

// BuiltInCategoriesText is the text of the built-in table of categories.
//
//go:embed categories.yaml
var BuiltInCategoriesText []byte

// BuiltInCategories returns the built-in table of categories.
var BuiltInCategories = sync.OnceValue(func() *Categories {
	table, err := ParseCategories(BuiltInCategoriesText)
	if err != nil {
		panic("categories.yaml: " + err.Error()) // the table is built in and tested
	}
	return table
})

// Categories holds the rules that assign a category to each call stack.
type Categories struct {
	CPU    []Rule `yaml:"cpu"`
	OffCPU []Rule `yaml:"offcpu"`

	ofService bool // the call stacks are of a user's service, whose own functions no rule can know
}

// Categories of a program's own functions. In a service of the user's own they are the application.
const (
	ownCategory         = "wirelab itself"
	applicationCategory = "the application"
	// backgroundCategory is for goroutines of a service that run no handler of requests.
	backgroundCategory = "goroutines without a request"
)

// A Rule assigns a category to the call stacks that contain one of its functions.
type Rule struct {
	Category  string   `yaml:"category"`
	In        string   `yaml:"in"`
	Anywhere  bool     `yaml:"anywhere"` // decides wherever the function is in the stack, before other rules
	Functions []string `yaml:"functions"`

	matches *regexp.Regexp
}

// ParseCategories reads a table of categories in YAML.
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
			return nil, fmt.Errorf("%s: the table has no rules: add at least one", table.name)
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
		return fmt.Errorf("the category is %q: write another name", r.Category)
	case r.In != "" && r.In != inKernel && r.In != inProgram:
		return fmt.Errorf("in is %q: write kernel or program, or leave it out for both", r.In)
	case len(r.Functions) == 0:
		return fmt.Errorf("the rule of category %q has no functions: add at least one pattern", r.Category)
	}
	for _, function := range r.Functions { // compiled separately, so that an error names the pattern
		if _, err := regexp.Compile(function); err != nil {
			return fmt.Errorf("functions: %w", err)
		}
	}
	r.matches, err = regexp.Compile("^(?:" + strings.Join(r.Functions, "|") + ")")
	return err
}

// A sorter finds the category of a call stack. It remembers the rule of each frame.
type sorter struct {
	rules     []Rule
	ofService bool
	// knowsHandlers says that a known library runs the service's handlers, so that other goroutines have no request.
	knowsHandlers bool
	known         map[record.Frame]int // number of a frame's rule, from 1; 0 means that no rule matches
}

func (c *Categories) cpuSorter() *sorter {
	return &sorter{rules: c.CPU, ofService: c.ofService, known: map[record.Frame]int{}}
}

func (c *Categories) offCPUSorter() *sorter {
	return &sorter{rules: c.OffCPU, ofService: c.ofService, known: map[record.Frame]int{}}
}

// lookForHandlers makes the sorter tell handlers of requests from other goroutines, if a known library runs them.
func (s *sorter) lookForHandlers(seen []*record.Seen) *sorter {
	s.knowsHandlers = s.ofService && slices.ContainsFunc(seen, func(one *record.Seen) bool {
		return one.Stacks != nil && slices.ContainsFunc(one.Stacks.Stacks, func(stack record.Stack) bool { return hasHandler(one.Stacks.Functions(stack)) })
	})
	return s
}

// categoryOf returns the category of a stack. The stack starts with its outermost frame.
func (s *sorter) categoryOf(stack []record.Frame) string {
	if s.knowsHandlers && hasNoRequest(stack) {
		return backgroundCategory
	}
	first := len(s.rules)
	for _, frame := range stack {
		if place := s.ruleIndex(frame); place > 0 && s.rules[place-1].Anywhere {
			first = min(first, place-1)
		}
	}
	if first < len(s.rules) {
		return s.rules[first].Category
	}
	for i := len(stack) - 1; i >= 0; i-- {
		place := s.ruleIndex(stack[i])
		switch {
		case s.ofService && (place > 0 && s.rules[place-1].Category == ownCategory || place == 0 && isApplication(stack[i])):
			return applicationCategory
		case place > 0:
			return s.rules[place-1].Category
		}
	}
	if s.ofService && slices.ContainsFunc(stack, isInLibrary) {
		return applicationCategory // such as an interpreter's, in a library of its own
	}
	return Unclassified
}

// hasNoRequest reports whether a goroutine runs a function of its service, and no handler of a request.
func hasNoRequest(stack []record.Frame) bool {
	const start, ofMain = "runtime.goexit", "runtime.main" // the outermost functions of goroutines
	return len(stack) > 1 && stack[0].Function == start && (isApplication(stack[1]) || stack[1].Function == ofMain) && !hasHandler(stack)
}

func hasHandler(stack []record.Frame) bool {
	return slices.ContainsFunc(stack, func(f record.Frame) bool { return runsHandler(f.Function) })
}

func isInLibrary(f record.Frame) bool { return f.In != "" && f.In != record.InKernel }

// isApplication reports whether a function that no rule matches is a service's own: neither of the
// kernel, nor of a library in a file of its own, nor of Go's standard library.
func isApplication(f record.Frame) bool {
	return f.In == "" && !strings.HasPrefix(f.Function, "[") && !isGoLibrary(f.Function)
}

var isGoLibrary = pattern.Matcher(`^(archive|bufio|bytes|cmp|compress|container|context|crypto|database|encoding|errors|fmt|hash|html|internal|io|iter|log|maps|math|mime|net|os|path|reflect|regexp|runtime|slices|sort|strconv|strings|sync|syscall|text|time|unicode|unique|vendor|weak)[./]|^(memeqbody|cmpbody|indexbytebody|countbody|aeshashbody|memclr\w*|memmove\w*)$`) // the last ones are in assembler

func (s *sorter) ruleIndex(frame record.Frame) int {
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
