package advice

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// fleet returns the line that says which machines measured.
func fleet(s *analysis.Summary) []string {
	if s.Fleet == nil {
		return nil
	}
	const head = "Fleet: "
	return []string{head + FleetLine(s.Fleet, words.LongestLine-len(head))}
}

// FleetLine says which agents measured, and how far their clocks and windows were apart. Where
// the names do not fit, the last of them are counted.
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
	if len(clients) > 1 {
		rest += ", windows " + togetherness(f.OpenedApartUS)
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

// togetherness says how far apart windows opened.
func togetherness(apartUS float64) string {
	if apartUS == 0 {
		return "together"
	}
	return "within " + words.Micros(apartUS)
}

// foreignAnswer repeats the figures of other programs, and gives no advice on them.
func foreignAnswer(s *analysis.Summary) []string {
	var lines []string
	single := false
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.IsValid() {
			lines = append(lines, foreignLine(c))
			single = single || c.Valid < matrix.LeastTrials
		}
	}
	lines = rank.Ends(lines)
	if single {
		lines = append(lines, fmt.Sprintf("Do: import %d files or more of one cell together: then there are intervals, and verdicts in diff.", matrix.LeastTrials))
	}
	trust := "Trust: "
	if against := reasons(s, record.Invalid); len(against) > 0 {
		trust += fmt.Sprintf("%d of %s invalid (%s); ", against[0].trials, words.Count(s.Done, "trial"), against[0].name)
	}
	trust += fmt.Sprintf("figures of %s, not of wirelab: no load generator, server or machine was watched.", words.List(s.Foreign))
	return append(lines, words.Cut(trust))
}

func foreignLine(c *matrix.Cell) string {
	line := c.Tool + ", " + path.Base(c.Workload)
	if c.Clients > 0 {
		line += ", " + words.Clients(c.Clients)
	}
	line += fmt.Sprintf(": %s in the mean", words.Between(c.Service.Mean, words.Micros))
	if p99 := rank.MetricOf(matrix.P99, c); p99 != nil {
		line += ", P99 " + words.Micros(p99.Value)
	}
	return words.Cut(line + ", " + words.Rate(c.Throughput.Value) + ".")
}

// whose says that the figures are not wirelab's.
func whose(s *analysis.Summary) string {
	return fmt.Sprintf("%s measured this, and wirelab read the files: nothing is advised on it. wirelab diff compares it with another run.", words.List(s.Foreign))
}
