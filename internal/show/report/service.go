package report

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// AnswerStatus is how many answers of a service had a status.
type AnswerStatus struct {
	Name  string `json:"name"` // as in "200 OK" of HTTP, or "Unavailable" of gRPC
	Count int64  `json:"count"`
	Bad   bool   `json:"bad"` // calls with it count as failed unless their user says otherwise
}

// JudgedCheck is a check of a cell's trials, at its worst.
type JudgedCheck struct {
	Name   string       `json:"name"`
	Level  record.Level `json:"level"`
	Trials int          `json:"trials"` // in which it came out so
	Detail string       `json:"detail"` // of the first of them
}

// wireNames are the wires of services in words.
var wireNames = map[string]string{
	"h1": "HTTP/1.1", "h2": "HTTP/2", "h3": "HTTP/3", "grpc": "gRPC", "grpc-h3": "gRPC on HTTP/3",
}

// sayCall says what a service was asked, and over what: GET /items over HTTP/1.1.
func sayCall(c *record.Cell) string {
	wire, others := c.Wire()
	text := c.Workload + " over " + cmp.Or(wireNames[wire], wire)
	for _, option := range others {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "inflight":
			text += ", at most " + value + " in flight"
		default:
			text += ", " + key + " " + value
		}
	}
	return text
}

// namedStatuses names the statuses of a service's answers.
func namedStatuses(c *record.Cell, counts []record.StatusCount) []AnswerStatus {
	wire, _ := c.Wire()
	var all []AnswerStatus
	for _, s := range counts {
		if strings.HasPrefix(wire, "grpc") {
			all = append(all, AnswerStatus{Name: codes.Code(s.Status).String(), Count: s.Count, Bad: s.Status != int(codes.OK)})
			continue
		}
		name := strings.TrimSpace(fmt.Sprintf("%d %s", s.Status, http.StatusText(s.Status)))
		all = append(all, AnswerStatus{Name: name, Count: s.Count, Bad: s.Status >= http.StatusBadRequest})
	}
	return all
}

// levels are those of a check, worst first.
var levels = []record.Level{record.Invalid, record.Warning, record.Unknown, record.OK}

// verdictsOf are the checks of a cell's trials, worst first.
func verdictsOf(cell record.Cell, records []*record.Record) []JudgedCheck {
	var all []JudgedCheck
	for _, r := range records {
		if r.Cell != cell {
			continue
		}
		for _, check := range r.Checks {
			i := slices.IndexFunc(all, func(v JudgedCheck) bool { return v.Name == check.Name })
			if i < 0 {
				i = len(all)
				all = append(all, JudgedCheck{Name: check.Name, Level: record.OK})
			}
			switch v := &all[i]; {
			case v.Trials == 0 || slices.Index(levels, check.Level) < slices.Index(levels, v.Level):
				v.Level, v.Trials, v.Detail = check.Level, 1, check.Detail
			case check.Level == v.Level:
				v.Trials++
			}
		}
	}
	slices.SortStableFunc(all, func(a, b JudgedCheck) int {
		return cmp.Compare(slices.Index(levels, a.Level), slices.Index(levels, b.Level))
	})
	return all
}

// cellName names a cell where a text speaks of one: of a service without the stack and the
// part, which all have.
func cellName(c *record.Cell) string {
	return fmt.Sprintf("%s, %s", sayCall(c), sayCount(c.Clients))
}

func sayCount(clients int) string {
	if clients == 1 {
		return "1 client"
	}
	return units.Thousands(int64(clients)) + " clients"
}
