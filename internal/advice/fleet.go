package advice

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/analysis"
)

// fleet says which machines measured, and how far their clocks and windows were apart. Where
// the names take too much room, the last are counted.
func fleet(s *analysis.Summary) []string {
	if s.Fleet == nil {
		return nil
	}
	return []string{FleetLine(s.Fleet)}
}

// FleetLine is that sentence.
func FleetLine(f *analysis.Fleet) string {
	clients, servers := f.InRole("client"), f.InRole("server")
	against := ""
	switch len(servers) {
	case 0:
	case 1:
		against = " against " + servers[0]
	default:
		against = fmt.Sprintf(" against %d servers", len(servers))
	}
	apart := fmt.Sprintf(": clocks within %s", micros(f.ClockErrorUS))
	if len(clients) > 1 {
		apart += ", windows within " + micros(f.OpenedApartUS)
	}
	head := "Measured by " + count(len(clients), "client agent")
	for shown := len(clients); shown > 0; shown-- {
		names := strings.Join(clients[:shown], ", ")
		if more := len(clients) - shown; more > 0 {
			names += fmt.Sprintf(", %d more", more)
		}
		if line := head + " (" + names + ")" + against + apart + "."; utf8.RuneCountInString(line) <= LongestLine {
			return line
		}
	}
	return cut(head + against + apart + ".")
}
