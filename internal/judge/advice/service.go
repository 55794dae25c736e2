package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// mostFailing returns the cell with the most failed calls, and words that name the cell if there are
// several.
func mostFailing(s *analysis.Summary) (worst matrix.Cell, with string) {
	worst = slices.MaxFunc(s.Cells, func(a, b matrix.Cell) int { return cmp.Compare(a.Survival.Unanswered(), b.Survival.Unanswered()) })
	if len(s.Cells) > 1 {
		with = "With " + words.Clients(worst.Clients) + ": "
	}
	return worst, with
}

// mostFailures says how many calls failed, and names the most frequent failure.
func mostFailures(s *analysis.Summary) []string {
	worst, with := mostFailing(s)
	failed := worst.Survival.Unanswered()
	if failed == 0 {
		return nil
	}
	count := words.Percent(float64(failed)/float64(worst.Survival.Requests)) + " of the calls"
	if 100*failed < worst.Survival.Requests { // a rounded percentage would say none
		count = words.Count(int(failed), "call")
	}
	most, mostly := worst.Survival.Failures[0], "mostly"
	if share := float64(most.Count) / float64(failed); share <= 0.5 {
		mostly = words.Percent(share) + " of these"
	}
	return []string{fmt.Sprintf("%s%s failed, %s with: %s", with, count, mostly, words.PlainError(most.Example))}
}

// LoadRemarks returns what readers of a load's figures must know besides the figures, the most
// important first: outages, why figures must not be used, and warnings. It names each cause once.
func LoadRemarks(s *analysis.Summary) []string {
	remarks := standstills(s)
	remarks = append(remarks, idleCloses(s)...)
	remarks = append(remarks, Unobserved(s)...)
	onlyDisturbed, others := OnlyDisturbed(s), false
	for _, r := range reasons(s, record.Warning) {
		if troubles[r.name].ofService {
			remarks = append(remarks, words.Capitalize(r.example)+".")
		}
	}
	if onlyDisturbed {
		remarks = append(remarks, disturbedFigures(s)...)
	}
	for _, r := range slices.Concat(reasons(s, record.Invalid), reasons(s, record.Warning)) {
		switch {
		case troubles[r.name].ofService:
		case troubles[r.name].others && (onlyDisturbed || others):
		case troubles[r.name].others:
			others = true
			remarks = append(remarks, words.Capitalize(otherPrograms(s))+": latencies may be a little too high.")
		case r.name == "errors":
			remarks = append(remarks, failureRemark(r.example)...)
		case r.level == record.Invalid:
			remarks = append(remarks, "Do not use "+refusedFigures(r.spoils)+": "+r.example)
		default:
			remarks = append(remarks, words.Capitalize(r.example)+".")
		}
	}
	for i := range s.Cells {
		remarks = append(remarks, lists.Map(s.Cells[i].Warnings, words.Capitalize)...)
	}
	shown := slices.DeleteFunc(slices.Clone(s.Warnings), func(text string) bool { return strings.HasPrefix(text, "the check ") })
	return append(remarks, lists.Map(shown, words.Capitalize)...)
}

// Unobserved says what the probes of a load did not observe. It leaves out what a warning of the run says.
func Unobserved(s *analysis.Summary) (remarks []string) {
	type gap struct{ missing, probe string }
	var gaps []gap
	for _, i := range s.Insights {
		for _, p := range i.Passes {
			for _, missing := range p.Missing {
				if !slices.ContainsFunc(s.Warnings, func(warning string) bool { return strings.Contains(warning, missing) }) {
					gaps = lists.AppendNew(gaps, gap{missing, p.Probe})
				}
			}
		}
	}
	for _, same := range lists.GroupBy(gaps, func(g gap) string { return g.missing }) {
		remarks = append(remarks, fmt.Sprintf("Not observed by --probe %s: %s.", strings.Join(lists.Map(same, func(g gap) string { return g.probe }), ","), same[0].missing))
	}
	return remarks
}

// refusedFigures names the figures that a check spoils.
func refusedFigures(spoils string) string {
	if spoils == "" {
		return "these figures"
	}
	return "the " + strings.NewReplacer(string(record.Times), "latencies", string(record.CPUTime), "CPU time").Replace(spoils)
}

// failureRemark returns what the check of failed calls found besides their number and their causes.
func failureRemark(detail string) []string {
	if _, times, has := strings.Cut(detail, "; failed calls took "); has {
		return []string{"Failed calls took " + times + "."}
	}
	if unsent, _, has := strings.Cut(detail, " were never sent"); has {
		return []string{unsent + " were never sent, because earlier calls never ended."}
	}
	return nil
}

// standstills describes the times in which almost no call was answered.
func standstills(s *analysis.Summary) []string {
	worst, with := mostFailing(s)
	n, longest := worst.Standstills()
	if n == 0 {
		return nil
	}
	times := "once, for"
	if n > 1 {
		times = fmt.Sprintf("%d times, the longest for", n)
	}
	maybe := ""
	if stopped := slices.IndexFunc(worst.Survival.Failures, func(e record.ErrorCount) bool { return e.Class == string(failure.Refused) }); stopped >= 0 {
		maybe = ", while it refused connections"
		if worst.Load.Model == "closed" {
			maybe += " (clients then ask once a second, so few calls fail)"
		}
	} else if slices.ContainsFunc(worst.Findings, func(f matrix.Finding) bool {
		return troubles[f.Name].others && f.Level.Severity() >= record.Warning.Severity()
	}) {
		maybe = "; other programs may be the cause"
	}
	return []string{words.Capitalize(fmt.Sprintf("%sthe service answered almost no calls %s about %s%s.", with, times, words.Micros(1e6*longest), maybe))}
}

// idleCloses says that requests failed because the service had just closed their kept connections.
func idleCloses(s *analysis.Summary) []string {
	lost := int64(0)
	for i := range s.Cells {
		for _, f := range s.Cells[i].Survival.Failures {
			if f.Class == string(failure.IdleClosed) {
				lost += f.Count
			}
		}
	}
	if lost == 0 {
		return nil
	}
	return []string{fmt.Sprintf("The service closes idle connections without saying so, and %s failed for that: let it send `Connection: close` or keep connections longer, or allow `--retry 1`.", words.Count(int(lost), "request"))}
}
