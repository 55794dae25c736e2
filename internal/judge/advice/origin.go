package advice

import (
	"fmt"
	"math"
	"path"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

func fleetLine(s *analysis.Summary) []string {
	if s.Fleet == nil {
		return nil
	}
	const head = "Fleet: "
	return []string{head + FleetLine(s.Fleet, words.MaxLineLength-len(head))}
}

// FleetLine names the fleet's agents, and says how far apart their clocks and windows were.
func FleetLine(f *analysis.Fleet, longest int) string {
	clients, servers := f.AgentsInRole("client"), f.AgentsInRole("server")
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
	return words.CutLine(head + rest + ".")
}

// foreignAnswer repeats the figures of other programs, without advice.
func foreignAnswer(s *analysis.Summary) []string {
	single := false
	lines := rank.FirstAndLast(lists.Map(rank.CellsOf(s, (*matrix.Cell).IsValid), func(c *matrix.Cell) string {
		single = single || c.Valid < matrix.LeastTrials
		of := c.Tool + ", " + path.Base(c.Workload)
		if c.Clients > 0 {
			of += ", " + words.Clients(c.Clients)
		}
		return timesLine(of, c.Service.Mean, c)
	}))
	if single {
		lines = append(lines, fmt.Sprintf("Do: import %d files or more of one cell together: only repeats give intervals and verdicts.", matrix.LeastTrials))
	}
	trust := "Trust: "
	if against := reasons(s, record.Invalid); len(against) > 0 {
		trust += fmt.Sprintf("%d of %s invalid (%s); ", against[0].trials, words.Count(s.Measured(), "trial"), against[0].name)
	}
	trust += fmt.Sprintf("figures by %s, not by wirelab: no check of the load generator, server or machine.", words.List(s.Foreign))
	return append(lines, trust)
}

// foreignNotice explains that the figures come from another program.
func foreignNotice(s *analysis.Summary) string {
	return fmt.Sprintf("%s measured this run, and wirelab only read the files, so there is no advice. To compare two runs, use wirelab diff.", words.List(s.Foreign))
}

// serviceAnswers describes the service's answers with the first and the last number of clients.
func serviceAnswers(s *analysis.Summary) []string {
	var lines []string
	for _, p := range rank.PartsOf(s) {
		lines = append(lines, partAnswers(p)...)
	}
	return rank.FirstAndLast(lines)
}

// partAnswers describes the service's answers with each number of clients.
func partAnswers(p *rank.Part) []string {
	return lists.Map(rank.Filter(p.Cells, (*matrix.Cell).IsValid), func(c *matrix.Cell) string {
		times := c.ResponseTimes()
		line := fmt.Sprintf("%s: %s succeeded", words.Clients(c.Clients), words.Rate(c.Throughput.Value))
		if !math.IsNaN(times.P50.Value) {
			line += ", half within " + words.Micros(times.P50.Value)
		}
		if !math.IsNaN(times.P99.Value) {
			line += ", 99 of 100 within " + words.Micros(times.P99.Value)
		}
		if c.Survival.Unanswered() == 0 {
			line += "; none failed"
		}
		return line + "."
	})
}

// withShortVariants replaces the names of variants by their short names.
func withShortVariants(s *analysis.Summary, sentences []string) []string {
	for i := range sentences {
		for _, c := range s.Cells {
			sentences[i] = strings.ReplaceAll(sentences[i], c.Variant, c.ShortVariant())
		}
	}
	return sentences
}
