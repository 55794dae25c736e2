package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A trouble says in plain words what a check found, and what a user can do about it.
type trouble struct {
	found, do string
	others    bool   // other programs on this machine are the cause
	ofService bool   // it is about the service's answers, not about the measurement
	warning   string // what a warning of the check says, in few words
}

// troubles has the words for the checks that users can act on.
var troubles = map[string]trouble{
	"gaps":               {others: true, warning: "other programs in the way"},
	"neighbours":         {others: true, warning: "busy neighbours"},
	"stopped":            {others: true, warning: "an end stood still"},
	"suspended":          {found: "the machine was suspended", do: "keep it awake"},
	"generator-bound":    {found: "the load generator was the limit", do: "use fewer clients, or more CPUs", warning: "client near its limit"},
	"schedule":           {found: "requests were sent late", do: "lower the rate"},
	"overload":           {found: "the service was offered more than it can serve", do: "lower the rate"},
	"connections":        {found: "connections were not opened as asked"},
	"errors":             {found: "calls failed"},
	"settled":            {found: "the warm-up was too short", do: "use a longer --warm-up", warning: "warm-up perhaps too short"},
	"generator-gc":       {warning: "collections in the client"},
	"sizes":              {ofService: true},
	"single-connections": {ofService: true},
	"streams":            {ofService: true},
	"no measurement":     {found: "trials ended without a measurement"},
}

// mainTrouble returns the commonest reason for invalid trials, or the zero value without any.
func mainTrouble(s *analysis.Summary) trouble {
	all := reasons(s, record.Invalid)
	if len(all) == 0 {
		return trouble{}
	}
	return describeTrouble(s, all[0].name)
}

func describeTrouble(s *analysis.Summary, check string) trouble {
	t := troubles[check]
	if t.others {
		t.found, t.do = otherPrograms(s), closeOthers(s)
	}
	t.found, t.do = cmp.Or(t.found, "the check "+check+" failed"), cmp.Or(t.do, "see the table's notes")
	return t
}

// otherPrograms says how much CPU time other programs used, and names them.
func otherPrograms(s *analysis.Summary) string {
	o := s.Others
	if o == nil || o.Share < 0.005 {
		return "other programs disturbed the trials"
	}
	share := fmt.Sprintf("%.0f %%", 100*o.Share)
	if o.Share > 0.45 && o.Share < 0.55 {
		share = "half"
	}
	text := fmt.Sprintf("other programs used %s of the CPUs", share)
	if names := otherNames(s); len(names) > 0 {
		text += " (" + strings.Join(names, ", ") + ")"
	}
	return text
}

func otherNames(s *analysis.Summary) []string {
	if s.Others == nil {
		return nil
	}
	return lists.Map(s.Others.Programs, func(p analysis.OtherProgram) string { return fmt.Sprintf("%s %.0f %%", p.Name, 100*p.Share) })
}

// closeOthers asks to close the other programs, by name if the names are known.
func closeOthers(s *analysis.Summary) string {
	if names := otherNames(s); len(names) > 0 {
		return "close other programs (" + strings.Join(names, ", ") + ")"
	}
	return "close other programs"
}

// tooFewTrialsAdvice suggests more trials or a quieter machine if most cells have too few valid
// trials.
func tooFewTrialsAdvice(s *analysis.Summary) string {
	few, planned := 0, 0
	for i := range s.Cells {
		if c := &s.Cells[i]; c.Valid < matrix.LeastTrials {
			few++
			if c.Trials >= matrix.LeastTrials {
				planned++
			}
		}
	}
	switch {
	case 2*few <= len(s.Cells):
		return ""
	case 2*planned > few:
		return fmt.Sprintf("Do: %s: %d of %d cells have too few valid trials.", cmp.Or(mainTrouble(s).do, "fix the cause of invalid trials"), few, len(s.Cells))
	}
	return fmt.Sprintf("Do: take %d repeats or more: %d of %d cells have too few trials for a verdict.", matrix.LeastTrials, few, len(s.Cells))
}

// trustLine counts the valid trials, and says what spoiled the others and what to do about it.
func trustLine(s *analysis.Summary) []string {
	done := s.Measured()
	if done == 0 || len(s.Cells) == 0 {
		return nil
	}
	valid := done - s.Invalid - s.Failed
	line := fmt.Sprintf("Trust: %d of %s valid", valid, words.Count(done, "trial"))
	if t := mainTrouble(s); t != (trouble{}) && valid < done {
		if t.others {
			t.do = "close them" // the line names them already
		}
		return []string{fmt.Sprintf("%s; %s: %s.", line, t.found, t.do)}
	}
	care := reasons(s, record.Warning)
	if len(care) == 0 {
		return []string{line + "."}
	}
	if t := describeTrouble(s, care[0].name); t.others {
		return []string{fmt.Sprintf("%s, but %s, which widens the intervals.", line, t.found)}
	}
	return words.FillLine(line+"; warnings: ", lists.Map(care[:min(len(care), words.MaxShownItems)], func(r reason) string {
		return fmt.Sprintf("%s in %d", cmp.Or(troubles[r.name].warning, r.name), r.trials)
	}))
}

// OnlyDisturbed reports whether other programs are the only reason why no trial is valid.
func OnlyDisturbed(s *analysis.Summary) bool {
	against := reasons(s, record.Invalid)
	return len(against) > 0 && !slices.ContainsFunc(s.Cells, func(c matrix.Cell) bool { return c.IsValid() }) &&
		!slices.ContainsFunc(against, func(r reason) bool { return !troubles[r.name].others })
}

// disturbedFigures says what can be believed of a service's figures if other programs disturbed them.
func disturbedFigures(s *analysis.Summary) []string {
	if !OnlyDisturbed(s) {
		return nil
	}
	return []string{"Noisy machine: " + otherPrograms(s) + ". Counts stand; latencies may be too high: close them, or measure later."}
}
