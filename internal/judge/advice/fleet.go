package advice

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/judge/analysis"
)

// fleet is the line of an answer that says which machines measured.
func fleet(s *analysis.Summary) []string {
	if s.Fleet == nil {
		return nil
	}
	const head = "Fleet: "
	return []string{head + FleetLine(s.Fleet, LongestLine-len(head))}
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
	rest += "; clocks ±" + micros(f.ClockErrorUS)
	if len(clients) > 1 {
		rest += ", windows " + togetherness(f.OpenedApartUS)
	}
	head := count(len(clients), "client agent")
	for shown := len(clients); shown > 0; shown-- {
		names := strings.Join(clients[:shown], ", ")
		if more := len(clients) - shown; more > 0 {
			names += fmt.Sprintf(", %d more", more)
		}
		if line := head + " (" + names + ")" + rest + "."; utf8.RuneCountInString(line) <= longest {
			return line
		}
	}
	return cut(head + rest + ".")
}

// togetherness says how far apart windows opened.
func togetherness(apartUS float64) string {
	if apartUS == 0 {
		return "together"
	}
	return "within " + micros(apartUS)
}
