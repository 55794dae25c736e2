package levers

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/wire/stack/catalog"
)

// Figures lists the figures that a lever may be asked to move.
var Figures = []string{matrix.Mean, matrix.P99, matrix.CPU}

// A Question is a slow cell whose lever is looked for.
type Question struct {
	Words    scenario.Vocabulary
	Run      *scenario.Scenario // the scenario of the run that measured the cell
	Of       record.Cell
	Against  *record.Cell        // a faster cell; nil if the question is not about a difference
	Suspects []insight.CauseKind // the likeliest first; empty if the run has no probes
	// SlowSuspects lists the suspects behind the slow calls.
	SlowSuspects []insight.CauseKind
	Explained    *insight.Explanation // of the cell, or of the difference; nil if the run has no probes
	Figure       string               // one of Figures; empty means mean
	Mean         time.Duration        // mean time of the cell's calls; 0 if it is unknown
	Named        []string             // levers to try instead of those of Catalogue, as in gogc=400
}

const (
	// mostTried is the greatest number of levers that one question tries.
	mostTried = 8
	// leastTried is the number of levers that are tried even if fewer act on the suspects, because a
	// suspicion may be wrong.
	leastTried = 4
	// window is the length of a trial's window. A P99 needs 1,000 calls, so it gets more time.
	window    = scenario.Duration(400 * time.Millisecond)
	p99Window = scenario.Duration(1200 * time.Millisecond)
	// leastWarmUp and mostWarmUp are the shortest bounds of a warm-up.
	leastWarmUp = scenario.Duration(250 * time.Millisecond)
	mostWarmUp  = scenario.Duration(3 * time.Second)
	// repeats is the least number of trials for an interval.
	repeats = 3
	// PartName is the name of the part that tries levers, and of its scenario.
	PartName = "levers"
)

// The runs whose levers cannot be tried.
var (
	errFleet  = errors.New("the agents of a fleet do not try levers: measure on this machine, without --fleet")
	errTarget = errors.New("levers start their own servers, and a running server keeps its settings: measure the stack without --target")
	errSearch = errors.New("a search with --goal has many rates: measure one rate with --rps, and look for its lever")
)

// BudgetOfComparison returns the share of the time for a comparison and its levers that the comparison
// gets, with its probes.
func BudgetOfComparison(all time.Duration) time.Duration { return all / 3 }

// BudgetOf returns the share of the time for all runs of a question that the next run gets. done is the
// number of runs that have ended.
func BudgetOf(all time.Duration, done int) time.Duration {
	if done == 0 {
		return all * 2 / 3
	}
	return all / 3
}

// Check checks the form of what a user asks for, before anything is measured.
func (q *Question) Check() error {
	if q.Figure != "" && !slices.Contains(Figures, q.Figure) {
		return fmt.Errorf("--of: found %q: want one of %s", q.Figure, strings.Join(Figures, ", "))
	}
	for _, text := range q.Named {
		if key, value, _ := strings.Cut(text, "="); key == "" || value == "" {
			return fmt.Errorf("--levers: found %q: want an option of the stack with its value, as in gogc=400", text)
		}
	}
	return nil
}

// Scenario returns the scenario that tries the levers.
func (q *Question) Scenario() (*scenario.Scenario, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	part, plain, err := q.plainPart()
	if err != nil {
		return nil, err
	}
	if q.Figure == matrix.P99 {
		all := slices.Clone(q.SlowSuspects)
		for _, kind := range q.Suspects {
			all = lists.AppendNew(all, kind)
		}
		q.Suspects = all
	}
	if part.Levers.Tried, part.Levers.NotTried, err = q.choose(part, plain); err != nil {
		return nil, err
	}
	return q.scenarioOf(part, "Levers of "+plain.String(), fmt.Sprintf("Which lever makes calls over %s faster?", plain))
}

// scenarioOf returns a scenario of one part. It adds the stacks of the part's levers.
func (q *Question) scenarioOf(part scenario.Part, title, question string) (*scenario.Scenario, error) {
	for _, lever := range part.Levers.Tried {
		if lever.Stack.String() != part.Levers.Against.String() { // which is there already
			part.Stacks = append(part.Stacks, lever.Stack)
		}
	}
	s := &scenario.Scenario{
		Version: scenario.Version, Name: part.Name, Title: title, Question: question, Seed: q.Run.Seed,
		Reduction: scenario.Reduction{Requests: 1, MaxClients: slices.Max(part.Clients), Repeats: repeats}, Parts: []scenario.Part{part},
	}
	length := window
	if q.Figure == matrix.P99 {
		length = p99Window
	}
	if part.Load.Model == scenario.Closed {
		s = s.WithShortWindows(length)
	}
	return s, s.Check(q.Words)
}

// plainPart returns the part of the run that has the cell, with this cell only, and its variant.
func (q *Question) plainPart() (part scenario.Part, plain scenario.Variant, err error) {
	i := slices.IndexFunc(q.Run.Parts, func(p scenario.Part) bool { return p.Name == q.Of.Part })
	if plain, err = scenario.ParseVariant(q.Of.Variant); err != nil || i < 0 {
		return part, plain, cmp.Or(err, fmt.Errorf("the run's scenario has no part %q", q.Of.Part))
	}
	from := q.Run.Parts[i]
	switch {
	case plain.Stack == record.ServiceStack:
		return part, plain, errors.New("levers change wirelab's own stacks, and this cell is a service of your own: change the service, and compare both versions with wirelab ab")
	case q.Of.Target != "":
		return part, plain, errTarget
	case from.Load.Model == scenario.Search:
		return part, plain, errSearch
	}
	part = scenario.Part{
		Name: PartName, Stacks: []scenario.Variant{plain}, Workload: from.Workload, Definition: from.Definition,
		Sizes:   []scenario.Payload{{Request: scenario.Size(q.Of.RequestBytes), Response: scenario.Size(q.Of.ResponseBytes)}},
		Clients: []int{q.Of.Clients}, Connection: from.Connection, Network: from.Network, Load: from.Load, WarmUp: from.WarmUp,
		Unpinned: from.Unpinned, Repeats: repeats, Levers: scenario.Levers{Figure: q.Figure},
	}
	if part.WarmUp.AtMost > 0 { // a short one would spoil trials, and cost more than it saves
		part.WarmUp.AtLeast, part.WarmUp.AtMost = max(part.WarmUp.AtLeast, leastWarmUp), max(part.WarmUp.AtMost, mostWarmUp)
	}
	if a := q.Against; a != nil && a.Part == q.Of.Part && a.Place == q.Of.Place && a.Variant != q.Of.Variant {
		fast, err := scenario.ParseVariant(a.Variant)
		if err != nil {
			return part, plain, err
		}
		part.Stacks, part.Levers.Against = append(part.Stacks, fast), fast
	}
	return part, plain, nil
}

// A candidate is a lever that can be tried on the question's cell.
type candidate struct {
	scenario.Lever
	onlyNamed string // why it needs the user's wish; empty if it does not
	suspect   int    // position of the first suspect that it acts on; -1 if there is none
}

// choose returns the levers to try, the likeliest first, and those that are left out.
func (q *Question) choose(part scenario.Part, plain scenario.Variant) (tried []scenario.Lever, left []scenario.LeftOut, err error) {
	if len(q.Named) > 0 {
		for _, text := range q.Named {
			lever, err := q.named(part, plain, text)
			if err != nil {
				return nil, nil, err
			}
			tried = append(tried, lever)
		}
		return tried, nil, nil
	}
	all := append(q.withoutSettings(part, plain), q.fitting(part, plain)...)
	for _, c := range all {
		switch {
		case c.onlyNamed != "":
			left = append(left, scenario.LeftOut{Name: c.Name, Why: c.onlyNamed})
		case len(tried) >= mostTried:
			left = append(left, scenario.LeftOut{Name: c.Name, Why: fmt.Sprintf("only %d levers are tried at once: name it with --levers %s", mostTried, c.Name)})
		case c.suspect < 0 && len(q.Suspects) > 0 && len(tried) >= leastTried:
			left = append(left, scenario.LeftOut{Name: c.Name, Why: fmt.Sprintf("it acts on no suspect (%s): name it with --levers %s", joinCauses(q.Suspects), c.Name)})
		default:
			tried = append(tried, c.Lever)
		}
	}
	tried = append(tried, q.delays(part, plain)...)
	if len(tried) == 0 {
		return nil, nil, fmt.Errorf("no lever of the catalogue fits %s here: name one of its options with --levers, as in --levers gogc=400 (wirelab list has all options)", plain)
	}
	return tried, left, nil
}

// delays returns two delays, one for each end: the more a call of several clients takes longer with
// one, the more time at this end matters. With one client a delay is only added to each call.
func (q *Question) delays(part scenario.Part, plain scenario.Variant) (all []scenario.Lever) {
	if part.Clients[0] < 2 || q.Mean == 0 || part.Load.Model != scenario.Closed || q.Figure != "" && q.Figure != matrix.Mean {
		return nil
	}
	delay := max(leastDelay, q.Mean/time.Duration(2*part.Clients[0])).Round(time.Microsecond)
	text := fmt.Sprintf("%dus", delay.Microseconds())
	for _, key := range []string{scenario.BusyServerOption, scenario.BusyClientOption} {
		if v := plain.With(key, text); q.canTry(part, v) {
			all = append(all, scenario.Lever{Stack: v, Name: key + "=" + text, Delay: scenario.Duration(delay)})
		}
	}
	return all
}

// leastDelay is the shortest delay whose effect can be measured.
const leastDelay = 5 * time.Microsecond

// notLevers lists the options that choose another program or what is measured.
var notLevers = []string{"server", "client", "peer", "caller", "library", "ends", scenario.BusyServerOption, scenario.BusyClientOption}

// withoutSettings returns the levers that take out one setting of the plain variant each.
func (q *Question) withoutSettings(part scenario.Part, plain scenario.Variant) (all []candidate) {
	for _, set := range plain.Options {
		v := plain
		v.Options = slices.DeleteFunc(slices.Clone(plain.Options), func(s scenario.Setting) bool { return s == set })
		if !slices.Contains(notLevers, set.Key) && q.canTry(part, v) || v.String() == part.Levers.Against.String() {
			text := set.Key + "=" + set.Value
			all = append(all, candidate{Lever: scenario.Lever{Stack: v, Name: "without " + text, Write: "take out the setting behind " + text}})
		}
	}
	return all
}

// fitting returns the levers of Catalogue that can change the cell, first those that act on suspects.
func (q *Question) fitting(part scenario.Part, plain scenario.Variant) (all []candidate) {
	cell := scenario.Cell{Variant: plain, Size: part.Sizes[0], Clients: part.Clients[0], Connection: part.Connection, Network: part.Network}
	if mode, has := plain.Get(scenario.ConnectionOption); has {
		cell.Connection, _ = scenario.ParseConnection(mode)
	}
	for _, lever := range Catalogue {
		switch v := plain.With(lever.Key, lever.Value); {
		case len(lever.Stacks) > 0 && !slices.Contains(lever.Stacks, plain.Stack):
		case lever.Fits != nil && !lever.Fits(cell), hasValue(plain, lever.Key, lever.Value), !q.canTry(part, v):
		case hasValue(scenario.Variant{Stack: plain.Stack}, lever.Key, lever.Value): // withoutSettings has it
		default:
			all = append(all, candidate{scenario.Lever{Stack: v, Name: lever.Name(), Write: lever.Write, Costs: lever.Costs}, lever.OnlyNamed, lever.actsOn(q.Suspects)})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Compare(uint(a.suspect), uint(b.suspect)) // −1 becomes the largest number
	})
	return all
}

// hasValue reports whether an option has this value, set or by default.
func hasValue(v scenario.Variant, key, value string) bool {
	if set, has := v.Get(key); has {
		return set == value
	}
	s, err := catalog.Find(v.Stack)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(slices.Concat(catalog.Options(s), catalog.Common()), func(o scenario.Option) bool { return o.Key == key && o.Default == value })
}

// canTry reports whether a variant can be measured in the part, and is not there yet.
func (q *Question) canTry(part scenario.Part, v scenario.Variant) bool {
	return q.Words.CheckVariant(v, part) == nil && !slices.ContainsFunc(part.Stacks, func(one scenario.Variant) bool { return one.String() == v.String() })
}

// named returns the lever that the user wrote.
func (q *Question) named(part scenario.Part, plain scenario.Variant, text string) (scenario.Lever, error) {
	key, value, _ := strings.Cut(text, "=")
	v := plain.With(key, value)
	lever := scenario.Lever{Stack: v, Name: text, Write: "the setting behind " + text}
	if err := q.Words.CheckVariant(v, part); err != nil {
		return lever, fmt.Errorf("--levers: %w", err)
	}
	if v.String() == plain.String() {
		return lever, fmt.Errorf("--levers: %s already has %s: name another value", plain, text)
	}
	i := slices.IndexFunc(Catalogue, func(l Lever) bool {
		return l.Name() == text && (len(l.Stacks) == 0 || slices.Contains(l.Stacks, plain.Stack))
	})
	if i >= 0 {
		lever.Write, lever.Costs = Catalogue[i].Write, Catalogue[i].Costs
	}
	return lever, nil
}

// Together returns the scenario that tries the two best levers of the first test alone and together.
// It returns nil if fewer than two levers help, or if all that help set the same option.
func (q *Question) Together(tests []compare.LeverTest) (*scenario.Scenario, error) {
	if len(tests) == 0 {
		return nil, nil
	}
	test := &tests[0]
	part, plain, err := q.plainPart()
	if err != nil {
		return nil, err
	}
	var best []scenario.Lever
	var both scenario.Variant
	for _, e := range test.Levers {
		v, err := scenario.ParseVariant(e.Variant)
		if err != nil || !e.Helps() || len(best) == 2 {
			continue
		}
		if len(best) == 1 {
			joined, apart := join(plain, best[0].Stack, v)
			if !apart || !q.canTry(part, joined) {
				continue
			}
			both = joined
		}
		best = append(best, scenario.Lever{Stack: v, Name: e.Name, Write: e.Write, Costs: e.Costs})
	}
	if len(best) < 2 {
		return nil, nil
	}
	part.Name += "-together"
	part.Levers.Tried = append(part.Levers.Tried, best[0], best[1], scenario.Lever{
		Stack: both, Name: best[0].Name + " and " + best[1].Name, Both: []scenario.Variant{best[0].Stack, best[1].Stack},
		Write: joinTexts(best[0].Write, best[1].Write), Costs: joinTexts(best[0].Costs, best[1].Costs),
	})
	return q.scenarioOf(part, "Two levers of "+plain.String(), fmt.Sprintf("How much faster are calls over %s with two levers together?", plain))
}

func joinTexts(a, b string) string {
	return strings.Join(slices.DeleteFunc([]string{a, b}, func(text string) bool { return text == "" }), "\n")
}

// join returns the plain variant with the changes of two others. It returns false if both change the
// same option.
func join(plain, a, b scenario.Variant) (both scenario.Variant, apart bool) {
	both, apart = a, true
	for _, set := range slices.Concat(plain.Options, b.Options) {
		before, was := plain.Get(set.Key)
		first, inFirst := a.Get(set.Key)
		second, inSecond := b.Get(set.Key)
		switch {
		case was == inSecond && before == second: // b does not change it
		case was != inFirst || before != first:
			apart = false
		case inSecond:
			both = both.With(set.Key, second)
		default:
			both.Options = slices.DeleteFunc(slices.Clone(both.Options), func(s scenario.Setting) bool { return s.Key == set.Key })
		}
	}
	return both, apart
}

func joinCauses(kinds []insight.CauseKind) string {
	return strings.Join(lists.Map(kinds, func(k insight.CauseKind) string { return string(k) }), ", ")
}
