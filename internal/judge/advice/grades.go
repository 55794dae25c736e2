package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// maxShownLeads is the largest number of leads in an answer.
const maxShownLeads = 3

// metricNames has the words for the best variant and its figure, and what stands before a figure.
var metricNames = map[string]struct{ best, lowest, by, before string }{
	matrix.Mean: {"fastest", "lowest mean", "mean", ""},
	matrix.P99:  {"best in the tail", "lowest P99", "P99", "P99, "},
	matrix.CPU:  {"cheapest", "lowest CPU time", "CPU time", "CPU time, "},
}

// leadSentences says for each lead which variant is best, with the grade and the evidence.
func leadSentences(p *rank.Part, leads []rank.Lead) []string {
	return lists.Map(leads[:min(len(leads), maxShownLeads)], func(l rank.Lead) string {
		return words.Capitalize(string(l.Grade)) + ": " + leadGroup(p, l) + leadText(l) + missingText(l) + "."
	})
}

// missingText names the variants that a lead cannot be about.
func missingText(l rank.Lead) string {
	if len(l.Missing) == 0 {
		return ""
	}
	text := "; no valid trial of " + words.List(words.FirstItems(slices.Clone(l.Missing), "%d more"))
	if l.Points > 1 {
		text += " at some point"
	}
	return text
}

func leadText(l rank.Lead) string {
	name, variants, equal := metricNames[l.Metric], words.List(l.Variants), "equal within "+units.Percent(l.Margin)
	ahead := ""
	if l.Lowest > 0 && !l.All {
		ahead = ", " + words.TimesBetween(l.Least, l.Most) + " before the next"
	}
	switch {
	case l.All:
		return fmt.Sprintf("%s are %s in %s%s", variants, equal, name.by, atPoints(l.Points, l.Points))
	case l.Grade == rank.Certain && len(l.Variants) > 1:
		return fmt.Sprintf("%s are %s, and %s%s", variants, name.best, equal, atPoints(l.Points, l.Points))
	case l.Grade == rank.Certain:
		text := variants + " is " + name.best + atPoints(l.Proven, l.Points) + ahead
		if l.Equal > 0 {
			text += fmt.Sprintf(", and %s at %d", equal, l.Equal)
		}
		return text
	case l.Grade == rank.Likely:
		text := fmt.Sprintf("%s is %s (%s%s%s; ", variants, name.best, name.lowest, atPoints(l.Lowest, l.Points), ahead)
		if l.Equal > 0 {
			text += fmt.Sprintf("%s at %d; ", equal, l.Equal)
		}
		return text + provenAt(l) + ")"
	}
	text := fmt.Sprintf("%s had the %s%s", variants, name.lowest, atPoints(l.Lowest, l.Points))
	switch {
	case l.Judged == 0:
		return "too few trials to tell; " + text
	case len(l.Winners) > 1:
		return "no variant is " + name.best + " everywhere; proven: " + words.List(lists.Map(l.Winners[:min(len(l.Winners), words.MaxShownRivals)], winnerText))
	case len(l.Winners) == 0:
		return "no variant is proven " + name.best + "; " + text
	}
	return "no variant is proven " + name.best + " everywhere; " + text + ", " + provenAt(l)
}

// winnerText names a winner with its only point, or with the number of its points.
func winnerText(w rank.Winner) string {
	if len(w.Points) == 1 {
		return w.Variant + " at " + words.PointText(w.Points[0])
	}
	return fmt.Sprintf("%s at %d points", w.Variant, len(w.Points))
}

func provenAt(l rank.Lead) string {
	switch {
	case l.Points == 1 && l.Proven == 0:
		return "not proven"
	case l.Proven == 0:
		return "proven at none"
	}
	return fmt.Sprintf("proven at %d", l.Proven)
}

// atPoints counts the points of a statement. It returns "" for a single point.
func atPoints(n, of int) string {
	switch {
	case of == 1:
		return ""
	case n == of && n == 2:
		return " at both points"
	case n == of:
		return fmt.Sprintf(" at all %d points", of)
	}
	return fmt.Sprintf(" at %d of %d points", n, of)
}

// leadGroup says where a lead holds, as in "with 1 client ". It returns "" for all points of a part.
func leadGroup(p *rank.Part, l rank.Lead) string {
	switch {
	case len(l.Clients) < len(p.Clients):
		return "with " + clientsText(l.Clients, p.Clients) + " "
	case len(l.Sizes) < len(p.Sizes):
		return "at " + words.List(lists.Map(l.Sizes, words.PayloadText)) + " "
	}
	return ""
}

// clientsText writes some of the numbers of clients. Three or more neighbours become a range.
func clientsText(some, all []int) string {
	first, n := slices.Index(all, some[0]), len(some)
	if n > 2 && first >= 0 && first+n <= len(all) && slices.Equal(all[first:first+n], some) {
		return fmt.Sprintf("%d to %s", some[0], words.Clients(some[n-1]))
	}
	texts := lists.Map(some[:n-1], strconv.Itoa)
	return words.List(append(texts, words.Clients(some[n-1])))
}

// Standings returns a line per lead with the factors of all variants, as in
// "tcp 1.0 | grpc 1.3–2.0×".
func Standings(s *analysis.Summary) []string {
	leads := rank.MainLeads(s)
	if len(leads) == 0 {
		return nil
	}
	p := rank.MainPart(rank.PartsOf(s))
	var lines []string
	for _, l := range leads[:min(len(leads), maxShownLeads)] {
		head := leadGroup(p, l)
		if head != "" {
			head = strings.TrimSuffix(head, " ") + ": "
		}
		items := []string{l.Variants[0] + " 1.0"}
		for _, other := range l.Standings {
			from, to := words.ShortFactor(other.Least), words.ShortFactor(other.Most)
			if from != to {
				to = from + "–" + to
			}
			items = append(items, other.Variant+" "+to+"×")
		}
		lines = append(lines, head+strings.Join(items, " | "))
	}
	return lines
}

// leadActions says what to do: which variant to choose, and the command that would settle the rest.
// It recommends nothing that is open or has no interval.
func leadActions(s *analysis.Summary, p *rank.Part, leads []rank.Lead) []string {
	var rules []string
	open := p.UncomparedPoints(matrix.Mean)
	likely := false
	for _, l := range leads {
		open = append(open, l.Unproven...)
		if l.Grade == rank.Open || l.Judged == 0 {
			continue
		}
		rules = append(rules, leadGroup(p, l)+chosen(l))
		likely = likely || l.Grade == rank.Likely
	}
	text := strings.Join(rules, "; ")
	if likely {
		text += ", unless something else speaks against it"
	}
	command := settlingCommand(s, p, open)
	switch cause := mainTrouble(s); {
	case len(open) == 0:
		return []string{"Do: " + text + "."}
	case command == "" && text != "":
		return []string{"Do: " + text + ". More repeats may settle the rest."}
	case command == "":
		return []string{cmp.Or(tooFewTrialsAdvice(s), "Do: take more repeats: no variant is proven best.")}
	case text != "":
		return []string{"Do: " + text + "; to settle the rest:", words.CommandIndent + command}
	case cause.others:
		return []string{"Do: " + cause.do + ", then measure again:", words.CommandIndent + command}
	}
	return []string{"Do: measure the open points again, for longer:", words.CommandIndent + command}
}

// chosen names the variants that a lead allows to choose.
func chosen(l rank.Lead) string {
	if l.All {
		return "choose any of them (equal within " + units.Percent(l.Margin) + ")"
	}
	text := "choose " + words.JoinWith(l.Variants, "or")
	if n := len(l.Except); n > 0 {
		text += " (not at " + words.List(words.FirstItems(lists.Map(l.Except, words.PointText), "%d more points")) + ")"
	}
	return text
}

// settlingFlags make a command measure until its comparisons are decided, for at most five minutes.
var settlingFlags = []string{"--budget", "5m"}

// flagsOfOneRun are the flags of compare that a new command leaves out: they concern the output, the
// number of repeats or an earlier run.
var flagsOfOneRun = []string{
	"--repeat", "--until", "--at-most", "--budget", "-o", "--output", "--json", "-v", "--verbose", "--live", "--dry-run", "--baseline", "--fail-if", "--columns",
}

// settlingCommand returns the run's own command, narrowed to the open points, with settlingFlags. It
// returns "" if the command compare did not measure the run.
func settlingCommand(s *analysis.Summary, p *rank.Part, open []rank.Point) string {
	if len(s.Command) < 2 || s.Command[1] != "compare" {
		return ""
	}
	all := lists.Map(p.Cells, func(c *matrix.Cell) rank.Point { return rank.Point{Size: c.Payload, Clients: c.Clients} })
	drop, narrowed := slices.Clone(flagsOfOneRun), []string{}
	for _, axis := range []struct {
		flags []string
		value func(rank.Point) string
		order func(a, b rank.Point) int
	}{
		{[]string{"-c", "--concurrency"}, func(at rank.Point) string { return strconv.Itoa(at.Clients) }, func(a, b rank.Point) int { return a.Clients - b.Clients }},
		{[]string{"--size"}, func(at rank.Point) string { return sizeFlag(at.Size) }, func(a, b rank.Point) int { return a.Size.Compare(b.Size) }},
	} {
		slices.SortFunc(open, axis.order)
		values := distinct(lists.Map(open, axis.value))
		if len(values) < len(distinct(lists.Map(all, axis.value))) {
			drop, narrowed = append(drop, axis.flags...), append(narrowed, axis.flags[0], strings.Join(values, ","))
		}
	}
	return words.Command(slices.Concat(withoutFlags(s.Command, drop), narrowed, settlingFlags))
}

func distinct(values []string) (all []string) {
	for _, v := range values {
		all = lists.AppendNew(all, v)
	}
	return all
}

// sizeFlag writes a size as the flag --size reads it.
func sizeFlag(size record.Payload) string {
	return size.Text(func(bytes int) string {
		if bytes%1024 == 0 && bytes > 0 {
			return fmt.Sprintf("%dKiB", bytes/1024)
		}
		return fmt.Sprint(bytes)
	}, "/")
}

// withoutFlags leaves out flags with their values. The command takes no other arguments, so each
// argument without a dash belongs to the flag before it.
func withoutFlags(line, names []string) []string {
	kept := slices.Clone(line[:2])
	dropping := false
	for _, argument := range line[2:] {
		if strings.HasPrefix(argument, "-") {
			name, _, _ := strings.Cut(argument, "=")
			dropping = slices.Contains(names, name) || slices.ContainsFunc(names, func(n string) bool {
				return len(n) == 2 && len(argument) > 2 && argument[1] != '-' && strings.HasPrefix(argument, n) // as in -c16
			})
		}
		if !dropping {
			kept = append(kept, argument)
		}
	}
	return kept
}
