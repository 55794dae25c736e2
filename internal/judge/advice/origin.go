package advice

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// fleet returns a line with the machines that measured.
func fleet(s *analysis.Summary) []string {
	if s.Fleet == nil {
		return nil
	}
	const head = "Fleet: "
	return []string{head + FleetLine(s.Fleet, words.LongestLine-len(head))}
}

// FleetLine names the agents that measured, and the distance between their clocks and windows.
func FleetLine(f *analysis.Fleet, longest int) string {
	clients, servers := f.InRole("client"), f.InRole("server")
	rest := ""
	switch len(servers) {
	case 0:
	case 1:
		rest = " against " + servers[0]
	default:
		rest = fmt.Sprintf(" against %d servers", len(servers))
	}
	rest += "; clocks ±" + words.Micros(f.ClockErrorUS)
	switch {
	case len(clients) < 2:
	case f.OpenedApartUS == 0:
		rest += ", windows together"
	default:
		rest += ", windows within " + words.Micros(f.OpenedApartUS)
	}
	head := words.Count(len(clients), "client agent")
	for shown := len(clients); shown > 0; shown-- {
		names := strings.Join(clients[:shown], ", ")
		if more := len(clients) - shown; more > 0 {
			names += fmt.Sprintf(", %d more", more)
		}
		if line := head + " (" + names + ")" + rest + "."; utf8.RuneCountInString(line) <= longest {
			return line
		}
	}
	return words.Cut(head + rest + ".")
}

// foreignAnswer repeats the figures of other programs, without advice.
func foreignAnswer(s *analysis.Summary) []string {
	single := false
	lines := rank.Ends(lists.Map(rank.CellsOf(s, (*matrix.Cell).IsValid), func(c *matrix.Cell) string {
		single = single || c.Valid < matrix.LeastTrials
		of := c.Tool + ", " + path.Base(c.Workload)
		if c.Clients > 0 {
			of += ", " + words.Clients(c.Clients)
		}
		return timesLine(of, c.Service.Mean, c)
	}))
	if single {
		lines = append(lines, fmt.Sprintf("Do: import %d files or more of one cell together: this gives intervals, and verdicts in diff.", matrix.LeastTrials))
	}
	trust := "Trust: "
	if against := reasons(s, record.Invalid); len(against) > 0 {
		trust += fmt.Sprintf("%d of %s invalid (%s); ", against[0].trials, words.Count(s.Done, "trial"), against[0].name)
	}
	trust += fmt.Sprintf("figures by %s, not by wirelab: no check of its load generator, server or machine.", words.List(s.Foreign))
	return append(lines, words.Cut(trust))
}

// whose explains that the figures come from another program.
func whose(s *analysis.Summary) string {
	return fmt.Sprintf("%s measured this, and wirelab read its files, so there is no advice. wirelab diff compares it with another run.", words.List(s.Foreign))
}

// served describes the service's answers with the fewest and the most clients.
func served(s *analysis.Summary) []string {
	var lines []string
	for _, p := range rank.PartsOf(s) {
		lines = append(lines, servedWith(p)...)
	}
	return rank.Ends(lines)
}

// servedWith describes the service's answers with each number of clients.
func servedWith(p *rank.Part) []string {
	return lists.Map(rank.Keep(p.Cells, (*matrix.Cell).IsValid), func(c *matrix.Cell) string {
		times := c.ResponseTimes()
		line := fmt.Sprintf("%s: %s answered well", words.Clients(c.Clients), words.Rate(c.Throughput.Value))
		if !math.IsNaN(times.P50.Value) {
			line += ", half within " + words.Micros(times.P50.Value)
		}
		if !math.IsNaN(times.P99.Value) {
			line += ", 99 of 100 within " + words.Micros(times.P99.Value)
		}
		if c.Survival.Lost() == 0 {
			line += "; none failed"
		}
		return words.Cut(line + ".")
	})
}

// byWire titles the variants of services by their wire, because they have no other stack.
func byWire(s *analysis.Summary, sentences []string) []string {
	for i := range sentences {
		for _, c := range s.Cells {
			sentences[i] = strings.ReplaceAll(sentences[i], c.Variant, c.ShortVariant())
		}
	}
	return sentences
}

// setbacks describes failures and standstills.
func setbacks(s *analysis.Summary) []string {
	worst := slices.MaxFunc(s.Cells, func(a, b matrix.Cell) int { return cmp.Compare(a.Survival.Lost(), b.Survival.Lost()) })
	var lines []string
	with := ""
	if len(s.Cells) > 1 {
		with = "With " + words.Clients(worst.Clients) + ": "
	}
	if failed := worst.Survival.Lost(); failed > 0 {
		share := float64(failed) / float64(worst.Survival.Requests)
		lines = append(lines, words.Cut(fmt.Sprintf("%s%s of the calls failed, mostly with: %s", with, words.Percent(share), worst.Survival.Failures[0].Example)))
	}
	if n, longest := worst.Standstills(); n > 0 {
		times := "once, for"
		if n > 1 {
			times = fmt.Sprintf("%d times, for up to", n)
		}
		lines = append(lines, words.Upper(fmt.Sprintf("%shardly anything was answered %s about %s.", with, times, words.Micros(1e6*longest))))
	}
	return lines
}

// refusal explains why no cell can be believed.
func refusal(s *analysis.Summary) []string {
	if slices.ContainsFunc(s.Cells, func(c matrix.Cell) bool { return c.IsValid() || len(c.Findings) == 0 }) {
		return nil
	}
	return []string{words.Cut("These figures cannot be believed: " + s.Cells[0].Findings[0].Detail)}
}
