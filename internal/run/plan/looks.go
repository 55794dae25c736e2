package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/check"
	"wirelab.dev/internal/run/lab"
)

// minRepeats is the smallest number of repeats for a verdict or a confidence interval.
const minRepeats = 3

// firstLookOnly is the time of a run that ends after the first look at enough repeats.
const firstLookOnly = 1

// NewUntil plans the looks of a run. The run ends after the first look that meets the target.
func NewUntil(s *scenario.Scenario, target UntilTarget, most RepeatLimit) (*record.Until, error) {
	u := &record.Until{Width: float64(target), TimeNS: int64(most.Time)}
	first := 0
	for _, p := range s.Parts {
		if partsToRepeat(u)(p) && (first == 0 || p.Repeats < first) {
			first = p.Repeats
		}
	}
	if first == 0 {
		return nil, errors.New("--until: no measured part can reach this goal: `verdict` needs a part with at least two variants, a precision such as 3% needs a part with at least one")
	}
	first = max(first, minRepeats)
	if most.Repeats <= first {
		return nil, fmt.Errorf("--at-most %d: want more than %d repeats, because the first look comes after %[2]d repeats", most.Repeats, first)
	}
	u.Looks, u.Begun = matrix.PlanLooks(first, most.Repeats), 1
	return u, nil
}

// partsToRepeat returns a filter for parts. It accepts a part if repeating it can meet the target.
func partsToRepeat(u *record.Until) func(scenario.Part) bool {
	return func(p scenario.Part) bool { return p.Profile == "" && (u.Width > 0 || len(p.Stacks) > 1) }
}

// Trials returns the trials of the looks that have begun. Without looks (u is nil), it returns all.
func Trials(s *scenario.Scenario, u *record.Until) []scenario.PlannedCell {
	if u == nil {
		return Blocks(s.Plan())
	}
	return Blocks(trialsUpTo(s, u, u.Begun))
}

// TrialsOfAllLooks returns the trials of a run that does not end before its last look.
func TrialsOfAllLooks(s *scenario.Scenario, u *record.Until) []scenario.PlannedCell {
	if u == nil {
		return Blocks(s.Plan())
	}
	return Blocks(trialsUpTo(s, u, len(u.Looks)))
}

// trialsUpTo returns the trials of a look and of all earlier looks. The first look has number 1.
func trialsUpTo(s *scenario.Scenario, u *record.Until, look int) []scenario.PlannedCell {
	repeats := lists.Map(u.Looks[:look], func(l record.InterimLook) int { return l.Repeats })
	return s.PlanLooks(repeats, cellsToRepeat(s, u))
}

// cellsToRepeat returns a filter for cells. It accepts a cell if the look repeats the cell.
func cellsToRepeat(s *scenario.Scenario, u *record.Until) func(look int, c scenario.Cell) bool {
	repeated := map[string]bool{}
	for _, p := range s.Parts {
		repeated[p.Name] = partsToRepeat(u)(p)
	}
	cells := distinctCells(s)
	needed := make([]func(scenario.Cell) bool, len(u.Looks))
	return func(look int, c scenario.Cell) bool {
		switch {
		case c.Probe != "" && !u.Claims: // a probe shows the same each time
			return false
		case look == 0:
			return u.Claims || repeated[c.Part]
		case u.Claims && needed[look] == nil:
			needed[look] = s.NeededBy(u.Looks[look-1].Again)
		case needed[look] == nil && u.Looks[look-1].Again == nil: // the whole part
			needed[look] = func(c scenario.Cell) bool { return repeated[c.Part] }
		case needed[look] == nil:
			again := map[string]bool{}
			for _, i := range u.Looks[look-1].Again {
				if i >= 0 && i < len(cells) { // a damaged manifest may have wrong indexes
					again[cells[i]] = true
				}
			}
			needed[look] = func(c scenario.Cell) bool { return again[cellKey(c)] }
		}
		return needed[look](c)
	}
}

// distinctCells returns the key of each cell of the plan, in the order of the plan's first look.
func distinctCells(s *scenario.Scenario) []string {
	var keys []string
	seen := map[string]bool{}
	for _, t := range lab.ManifestOrder(s.Plan()) {
		if !seen[t.Cell] {
			seen[t.Cell] = true
			keys = append(keys, t.Cell)
		}
	}
	return keys
}

// cellKey returns the key that the records of a cell have.
func cellKey(c scenario.Cell) string {
	return lab.ManifestOrder([]scenario.PlannedCell{{Cell: c}})[0].Cell
}

// DescribeEnd describes when the repeats of a run end.
func DescribeEnd(u *record.Until) string {
	goal := "every comparison of the mean is decided"
	if u.Width > 0 {
		goal = fmt.Sprintf("each mean is known within %.3g %%", 100*u.Width)
	}
	if u.TimeNS > 0 {
		return fmt.Sprintf("%s, or %v are over", goal, time.Duration(u.TimeNS).Round(time.Second))
	}
	return fmt.Sprintf("%s, with at most %d repeats and %d looks at the results", goal, u.Looks[len(u.Looks)-1].Repeats, len(u.Looks))
}

// NameLook names the current look of a run.
func NameLook(u *record.Until) string {
	if u.TimeNS > 0 {
		return fmt.Sprintf("look %d", u.Begun)
	}
	return fmt.Sprintf("look %d of at most %d", u.Begun, len(u.Looks))
}

// A LookSeries measures a scenario and judges the results at each look, if the run has looks.
type LookSeries struct {
	Run      *record.Run
	Scenario *scenario.Scenario
	Limits   check.Limits // thresholds for judging trials
	// MeasureTrials measures the trials that have no record yet.
	MeasureTrials func(trials []scenario.PlannedCell) error
	// Undecided reports whether a run whose comparisons are all decided must go on, because a gate
	// cannot tell yet. It may be nil.
	Undecided func(judged analysis.JudgedTrials) bool
	// Say prints a line about the result of a look.
	Say func(line string)
}

// Measure measures trials and judges them at each look, until the goal is or cannot be reached.
func (c *LookSeries) Measure() error {
	for {
		u := c.Run.Manifest.Until
		if err := c.MeasureTrials(Trials(c.Scenario, u)); err != nil || u == nil {
			return err
		}
		if err := c.takeLook(u); err != nil || u.Ended != "" {
			return err
		}
		u.Begun++
		if err := c.Run.Replan(lab.ManifestOrder(Trials(c.Scenario, u))); err != nil {
			return err
		}
	}
}

// takeLook judges the trials, and stores and prints the result. If the run ends, it stores why.
func (c *LookSeries) takeLook(u *record.Until) error {
	judged, took, err := c.judgeTrials()
	if err != nil {
		return err
	}
	found, err := compare.EvaluateLook(&c.Run.Manifest, judged.Records)
	if err != nil {
		return err
	}
	now := &u.Looks[u.Begun-1]
	now.Open, now.Of = &found.Open, &found.Of
	u.Ended = ""
	open := c.openItems(found)
	undecided := found.Of > 0 && found.Open == 0 && u.Width == 0 && c.Undecided != nil && c.Undecided(judged)
	if undecided {
		open = c.everyItem()
	}
	switch {
	case found.Of == 0:
		u.Ended = record.EndedNothing
	case found.Open == 0 && !undecided:
		u.Ended = record.EndedAnswered
	case u.Begun == len(u.Looks):
		u.Ended = record.EndedRepeats
	case u.Width == 0:
		now.Again, u.Ended = c.chooseItems(u, open, judged.Records, took)
	default:
		trials, more := len(Trials(c.Scenario, u)), len(trialsUpTo(c.Scenario, u, u.Begun+1))
		if u.TimeNS > 0 && took+took*int64(more-trials)/int64(trials) > u.TimeNS {
			u.Ended = record.EndedByTime
		}
	}
	if u.Ended == record.EndedByTime { // the last look then has the levels of the looks after it
		if found, err = compare.EvaluateLook(&c.Run.Manifest, judged.Records); err != nil {
			return err
		}
	}
	if now.Repeats >= minRepeats { // a preview decides nothing
		c.Say(describeLook(u))
	}
	return nil
}

// An openItem is a point or a claim that more repeats may decide.
type openItem struct {
	cells  []string // keys of the cells to repeat
	again  []int    // what Again gets for the item
	needed int      // about as many repeats decide the item
	ahead  int      // about as many of these are not measured yet
}

func (c *LookSeries) openItems(found compare.Look) (items []openItem) {
	cells := distinctCells(c.Scenario)
	for _, p := range found.Points {
		item := openItem{cells: lists.Map(p.Cells, record.Cell.Key), needed: p.Needed, ahead: p.Needed - p.Repeats}
		item.again = lists.Map(item.cells, func(key string) int { return slices.Index(cells, key) })
		items = append(items, item)
	}
	for _, open := range found.Claims {
		item := openItem{again: []int{open.Index}, needed: open.Needed, ahead: open.Needed}
		needs := c.Scenario.NeededBy(item.again)
		for _, t := range c.Scenario.Plan() {
			if t.Repeat == 1 && needs(t.Cell) {
				item.cells = append(item.cells, cellKey(t.Cell))
			}
		}
		items = append(items, item)
	}
	return items
}

// everyItem returns all cells as one item.
func (c *LookSeries) everyItem() []openItem {
	all := openItem{cells: distinctCells(c.Scenario)}
	for i := range all.cells {
		all.again = append(all.again, i)
	}
	return []openItem{all}
}

// hope limits the repeats that an item may need, as a multiple of the last look's repeats. The need
// is an estimate from a few repeats. An item that needs more is not measured again.
const hope = 4

// chooseItems chooses the items that the next look repeats. Items that need few repeats come first, as
// long as the time allows. If it chooses none, it returns why the run ends.
func (c *LookSeries) chooseItems(u *record.Until, open []openItem, records []*record.Record, took int64) (again []int, ended string) {
	costs, trials := map[string]int64{}, map[string]int64{}
	for _, r := range records {
		costs[r.Cell.Key()] += r.TookNS
		trials[r.Cell.Key()]++
	}
	extra := int64(u.Looks[u.Begun].Repeats - u.Looks[u.Begun-1].Repeats)
	left := u.TimeNS - took
	isTimed := u.TimeNS > 0 && u.Looks[u.Begun-1].Repeats >= minRepeats
	slices.SortStableFunc(open, func(a, b openItem) int { return cmp.Compare(a.ahead, b.ahead) })
	ended = record.EndedNothing
	chosen := map[string]bool{}
	for _, item := range open {
		var cost int64 // of one repeat
		for _, cell := range item.cells {
			if !chosen[cell] {
				cost += costs[cell] / max(1, trials[cell])
			}
		}
		switch {
		case item.needed > hope*u.Looks[len(u.Looks)-1].Repeats:
			continue
		case isTimed && extra*cost > left:
			ended = record.EndedByTime
			continue
		}
		left -= extra * cost
		for _, cell := range item.cells {
			chosen[cell] = true
		}
		again = append(again, item.again...)
	}
	if len(again) > 0 {
		return again, ""
	}
	return nil, ended
}

// judgeTrials judges the trials of the run. tookNS is their time, with the anchor's time in the run.
func (c *LookSeries) judgeTrials() (judged analysis.JudgedTrials, tookNS int64, err error) {
	var records []*record.Record
	for r, err := range c.Run.Records() {
		if err != nil {
			return analysis.JudgedTrials{}, 0, err
		}
		records = append(records, &r)
		tookNS += r.TookNS
	}
	if !c.Run.Manifest.Until.Claims { // a replication has no anchor
		tookNS += int64(lab.AnchorTime(1, time.Duration(tookNS)))
	}
	return analysis.Judge(records, c.Limits), tookNS, nil
}

func describeLook(u *record.Until) string {
	now := u.Looks[u.Begun-1]
	what := "comparisons decided"
	if u.Claims {
		what = "claims decided"
	}
	if u.Width > 0 {
		what = fmt.Sprintf("means known within %.3g %%", 100*u.Width)
	}
	text := fmt.Sprintf("%s, after %d repeats: %d of %d %s", NameLook(u), now.Repeats, *now.Of-*now.Open, *now.Of, what)
	switch {
	case u.TimeNS == firstLookOnly:
	case u.Ended == "":
		if !u.Claims && now.Again != nil {
			return fmt.Sprintf("%s; measuring %d cells again", text, len(now.Again))
		}
		return fmt.Sprintf("%s; continuing to %d repeats", text, u.Looks[u.Begun].Repeats)
	case u.Ended == record.EndedNothing:
		return text + "; the run ends, because more repeats would not decide the rest"
	case u.Ended == record.EndedByTime:
		return fmt.Sprintf("%s; the run ends, because its time is too short for %d repeats", text, u.Looks[u.Begun].Repeats)
	}
	return text
}

// DefaultMaxRepeats is the default limit for --until. More repeats rarely change a verdict.
const DefaultMaxRepeats = 30

// MaxBudgetRepeats limits the repeats of a run that its time ends.
const MaxBudgetRepeats = 200

// An UntilTarget is the wanted precision of each mean, as a share. 0 means VerdictTarget.
type UntilTarget float64

// VerdictTarget is the --until value that asks for a verdict on every comparison of means.
const VerdictTarget = "verdict"

// Set parses the value of --until.
func (g *UntilTarget) Set(text string) error {
	if text == VerdictTarget {
		*g = 0
		return nil
	}
	percent, isShare := strings.CutSuffix(text, "%")
	width, err := strconv.ParseFloat(percent, 64)
	if err != nil || !isShare || !(width >= 0.1 && width <= 100) {
		return errors.New("want `verdict`, or a precision of each mean from 0.1% to 100%, as in 3%")
	}
	*g = UntilTarget(width / 100)
	return nil
}

// String returns the text that Set parses, or "" for the zero value.
func (g *UntilTarget) String() string {
	if *g == 0 {
		return ""
	}
	return strconv.FormatFloat(100*float64(*g), 'g', 3, 64) + "%"
}

// Type returns the name that pflag prints for the type.
func (g *UntilTarget) Type() string { return "goal" }

// A RepeatLimit limits the repeats and the time of a run. A Time of 0 means no time limit.
type RepeatLimit struct {
	Repeats int
	Time    time.Duration
}

const (
	// minRepeatLimit is larger by one than the number of repeats before the first look.
	minRepeatLimit = 4
	// maxRepeatLimit protects the user from a typing mistake.
	maxRepeatLimit = 1000
)

// Set parses a RepeatLimit. The default for the number of repeats is DefaultMaxRepeats.
func (m *RepeatLimit) Set(text string) error {
	wrong := fmt.Errorf("want repeats, from %d to %d, a time, as in 20m, or both, as in 30,20m", minRepeatLimit, maxRepeatLimit)
	read := RepeatLimit{Repeats: DefaultMaxRepeats}
	count, limit, both := strings.Cut(text, ",")
	repeats, err := strconv.Atoi(count)
	if err == nil {
		read.Repeats = repeats
	} else if limit, both = text, true; strings.Contains(text, ",") {
		return wrong
	}
	if both {
		if read.Time, err = time.ParseDuration(limit); err != nil || read.Time <= 0 {
			return wrong
		}
	}
	if read.Repeats < minRepeatLimit || read.Repeats > maxRepeatLimit {
		return wrong
	}
	*m = read
	return nil
}

// String returns text that Set accepts.
func (m *RepeatLimit) String() string {
	text := strconv.Itoa(m.Repeats)
	if m.Time > 0 {
		text += "," + m.Time.String()
	}
	return text
}

// Type returns the name that pflag prints for the type.
func (m *RepeatLimit) Type() string { return "repeats" }
