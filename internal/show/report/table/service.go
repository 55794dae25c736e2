package table

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// An AnswerStatus holds the number of answers of a service that had one status.
type AnswerStatus struct {
	Name  string `json:"name"` // as in "200 OK" of HTTP, or "Unavailable" of gRPC
	Count int64  `json:"count"`
	Bad   bool   `json:"bad"` // calls with it count as failed unless their user says otherwise
}

// wireNames names the wires of services in words.
var wireNames = map[string]string{
	"h1": "HTTP/1.1", "h2": "HTTP/2", "h3": "HTTP/3", "grpc": "gRPC", "grpc-h3": "gRPC on HTTP/3",
}

// DescribeCall says what a service was asked, and over what: GET /items over HTTP/1.1.
func DescribeCall(c *record.Cell) string {
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

// NamedStatuses names the statuses of a service's answers.
func NamedStatuses(c *record.Cell, counts []record.StatusCount) []AnswerStatus {
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

// CellName names a cell where a text speaks of one: of a service without the stack and the
// part, which all have.
func CellName(c *record.Cell) string {
	return fmt.Sprintf("%s, %s", DescribeCall(c), sayCount(c.Clients))
}

func sayCount(clients int) string {
	if clients == 1 {
		return "1 client"
	}
	return units.Thousands(int64(clients)) + " clients"
}
