package wirelabtest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
	"wirelab.dev/internal/wire/workload/own"
)

// An Option changes what Compare measures or judges.
type Option struct{ apply func(*settings) error }

type settings struct {
	variants       []scenario.Variant
	callers        int
	budget, window time.Duration
	repeats        int
	seed           uint64
	conditions     []analysis.Condition
	undecidedPass  bool
	baseline, into string
}

// The defaults.
const (
	defaultBudget  = 30 * time.Second
	defaultWindow  = 300 * time.Millisecond
	defaultCallers = 16
	firstRepeats   = 3 // intervals need three
	longestWarmUp  = 3 * time.Second
)

// Stacks names the stacks to compare, as in wirelab compare --stack: each a name with options, such as
// "fastgrpc" or "grpc:conn=pool:4" (wirelab list shows all). The default is grpc and fastgrpc.
func Stacks(variants ...string) Option {
	return Option{func(s *settings) error {
		s.variants = nil
		for _, text := range variants {
			parsed, err := scenario.ParseVariants(text)
			if err != nil {
				return fmt.Errorf("Stacks(%q): %w", text, err)
			}
			for _, v := range parsed {
				if err := checkCarries(v); err != nil {
					return fmt.Errorf("Stacks(%q): %w", text, err)
				}
			}
			s.variants = append(s.variants, parsed...)
		}
		if len(s.variants) == 0 {
			return errors.New(`Stacks: found no stack: name some, as in Stacks("grpc", "fastgrpc")`)
		}
		return nil
	}}
}

// checkCarries returns an error if a variant is unknown, or if one of its ends is another program,
// which does not contain the service.
func checkCarries(v scenario.Variant) error {
	if err := catalog.Check(v); err != nil {
		return err
	}
	_, served := catalog.ServerPeer(v)
	_, called := catalog.ClientPeer(v)
	_, carried := catalog.Carrier(v)
	_, foreign := stack.ForeignClient(v)
	s, err := catalog.Find(v.Stack)
	if err != nil {
		return err
	}
	var limited error
	if limiter, is := s.(stack.WorkloadLimiter); is {
		limited = limiter.CheckWorkload(own.Name)
	}
	if served || called || carried || foreign || catalog.SmallObject(v) != 0 {
		return fmt.Errorf("variant %s: another program is one of its ends, and your service is not in that program: leave the variant out", v)
	}
	return limited
}

// Callers sets the number of calls in flight: each caller waits for its answer before its next call.
// The default is 16.
func Callers(n int) Option { return Option{func(s *settings) error { s.callers = n; return nil }} }

// Budget limits the time of the comparison: each stack is measured three times, and then again until
// all comparisons are decided or the time is over. The default is 30 s. The three repeats are
// measured even if they take longer.
func Budget(d time.Duration) Option {
	return Option{func(s *settings) error {
		if d < time.Second {
			return fmt.Errorf("Budget(%v): want 1s or more", d)
		}
		s.budget = d
		return nil
	}}
}

// Repeats measures each stack this many times, in place of a Budget. Fewer than three give figures
// without intervals, and no verdict.
func Repeats(n int) Option {
	return Option{func(s *settings) error {
		if n < 1 {
			return fmt.Errorf("Repeats(%d): want 1 or more", n)
		}
		s.repeats = n
		return nil
	}}
}

// Window sets how long each repeat loads each stack. The default is 300 ms, which grows if longer
// windows make intervals narrower in the same time.
func Window(d time.Duration) Option {
	return Option{func(s *settings) error {
		if d < time.Millisecond {
			return fmt.Errorf("Window(%v): want 1ms or more", d)
		}
		s.window = d
		return nil
	}}
}

// Seed sets the seed of the order in which stacks take turns. The default is 1.
func Seed(n uint64) Option { return Option{func(s *settings) error { s.seed = n; return nil }} }

// FailIf fails the test if a condition is certainly true for any stack, or if the measurement cannot
// tell. The conditions are those of wirelab compare --fail-if: of a figure, such as "p99 > 20ms",
// "errors > 0.1%" or "rps < 1000"; with Baseline also of a change, such as "p99 > +10%".
func FailIf(conditions ...string) Option {
	return Option{func(s *settings) error {
		for _, text := range conditions {
			c, err := analysis.ParseCondition(text)
			if err == nil {
				err = c.CheckLoad(string(scenario.Closed))
			}
			if err != nil {
				return fmt.Errorf("FailIf: %w", err)
			}
			s.conditions = append(s.conditions, c)
		}
		return nil
	}}
}

// UndecidedPasses lets the test pass if the measurement cannot tell whether a condition of FailIf is
// kept, as on a busy machine.
func UndecidedPasses() Option {
	return Option{func(s *settings) error { s.undecidedPass = true; return nil }}
}

// Baseline names the directory of an earlier run (see SaveTo). Conditions of FailIf on changes compare
// with it.
func Baseline(directory string) Option {
	return Option{func(s *settings) error { s.baseline = directory; return nil }}
}

// SaveTo keeps the run, with its report, in a new directory below a folder. wirelab report, explain and
// diff open it. Without SaveTo nothing is written.
func SaveTo(folder string) Option {
	return Option{func(s *settings) error { s.into = folder; return nil }}
}

func (s *settings) checkTogether() error {
	change := slices.IndexFunc(s.conditions, analysis.Condition.IsChange)
	switch {
	case s.callers < 1:
		return fmt.Errorf("Callers(%d): want 1 or more", s.callers)
	case s.budget > 0 && s.repeats > 0:
		return errors.New("Budget and Repeats both limit the comparison: leave out one of the two")
	case s.budget > 0 && len(s.variants) < 2:
		return errors.New("Budget repeats until a comparison is decided, but there is one stack: name another one, or use Repeats")
	case change >= 0 && s.baseline == "":
		return fmt.Errorf("FailIf(%q) is about a change: name the earlier run with Baseline; for the figure itself write its unit, as in p99>20ms", s.conditions[change].Text)
	case change >= 0 && s.repeats > 0:
		return s.conditions[change].CheckWindows(s.baseline, nil, s.repeats)
	case len(s.conditions) == 0 && s.undecidedPass:
		return errors.New("UndecidedPasses has no effect without FailIf: add a condition, or leave it out")
	}
	return nil
}

func variantNames(variants []scenario.Variant) []string {
	var all []string
	for _, v := range variants {
		all = append(all, v.String())
	}
	return all
}
