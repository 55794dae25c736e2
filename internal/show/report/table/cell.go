package table

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// An AnswerStatus holds the number of answers of a service that had one status.
type AnswerStatus struct {
	Name  string `json:"name"` // as in "200 OK" of HTTP, or "Unavailable" of gRPC
	Count int64  `json:"count"`
	Bad   bool   `json:"bad"` // calls with it count as failed unless their user says otherwise
}

var wireNames = map[string]string{
	"h1": "HTTP/1.1", "h2": "HTTP/2", "h3": "HTTP/3", "grpc": "gRPC", "grpc-h3": "gRPC on HTTP/3",
}

// DescribeCall says what a service was asked, and over what: GET /items over HTTP/1.1.
func DescribeCall(c *record.Cell) string {
	wire, others := c.Wire()
	text := c.Workload + " over " + cmp.Or(wireNames[wire], wire)
	for _, option := range others {
		key, value, _ := strings.Cut(option, "=")
		if key == "inflight" {
			text += ", at most " + value + " in flight"
		} else {
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

// CellName names a service's cell in a text, without stack and part, which all have.
func CellName(c *record.Cell) string {
	return fmt.Sprintf("%s, %s", DescribeCall(c), sayCount(c.Clients))
}

func sayCount(clients int) string {
	if clients == 1 {
		return "1 client"
	}
	return units.Thousands(int64(clients)) + " clients"
}

func saySizes(c *matrix.Cell) string {
	if c.Payload == (record.Payload{}) { // the workload has no sizes
		return ""
	}
	return c.Payload.Text(func(bytes int) string { return units.Bytes(bytes, " ") }, " → ")
}

// ClientCount returns the number of clients as the text of a column.
func ClientCount(c *matrix.Cell) string { return countOr(c.Clients) }

// countOr returns a count, which is unknown if it is zero.
func countOr(n int) string {
	if n == 0 {
		return format.Absent
	}
	return strconv.Itoa(n)
}

// DescribeClients returns the number of clients with its noun.
func DescribeClients(c *matrix.Cell) string {
	if c.Clients == 0 {
		return "clients unknown"
	}
	return sayCount(c.Clients)
}

func sayLoad(c *matrix.Cell) string {
	switch text := DescribeLoad(c); text {
	case "closed", "open":
		return text + " loop"
	case record.UnknownLoad:
		return "load unknown"
	default:
		return text
	}
}

func link(c *matrix.Cell) string {
	switch n := c.Network; {
	case n.Link != "":
		return n.Link
	case n.DelayNS > 0: // a record from before links had a text
		return "delay=" + time.Duration(n.DelayNS).String()
	}
	return "loopback"
}

func sayLink(c *matrix.Cell) string {
	if !c.Network.Linked() {
		return ""
	}
	return "over a link with " + link(c)
}

func sayAgents(c *matrix.Cell) string {
	if c.Agents == 0 {
		return ""
	}
	return "from " + words.Count(c.Agents, "agent") + " of a fleet"
}

// sayMode names a mode of a connection per request that the variant does not name.
func sayMode(c *matrix.Cell) string {
	if !c.Connections.PerRequest || strings.Contains(c.Variant, "conn=") {
		return ""
	}
	return "conn=" + c.Connection
}

// DescribeLoad says in short how the cell was loaded. A limit is in the variant's name.
func DescribeLoad(c *matrix.Cell) string {
	switch l := c.Load; {
	case l.Burst > 0:
		return "burst of " + units.Thousands(int64(l.Burst))
	case l.RampTo > 0:
		return "ramp " + format.PerSecond(l.RatePerSecond) + " to " + format.PerSecond(l.RampTo) + "/s"
	case l.Model == record.Paced:
		return "closed loop at " + format.PerSecond(l.RatePerSecond) + "/s"
	case l.RatePerSecond > 0:
		return strings.TrimSpace(l.Arrivals + " " + format.PerSecond(l.RatePerSecond) + "/s")
	case l.Goal != "":
		return l.Model + " " + l.Goal
	default:
		return l.Model
	}
}

// Ordered returns the cells in the table's order: compared ones together, parts as in the scenario.
func Ordered(cells []matrix.Cell) []*matrix.Cell {
	place := make(map[string]int)
	sorted := make([]*matrix.Cell, len(cells))
	for i := range cells {
		sorted[i] = &cells[i]
		if _, seen := place[cells[i].Part]; !seen {
			place[cells[i].Part] = len(place)
		}
	}
	slices.SortStableFunc(sorted, func(a, b *matrix.Cell) int {
		return cmp.Or(
			cmp.Compare(place[a.Part], place[b.Part]),
			cmp.Compare(a.Workload, b.Workload),
			a.Place.Compare(b.Place),
			cmp.Compare(a.Load.RatePerSecond, b.Load.RatePerSecond),
		)
	})
	return sorted
}

// compared reports whether two cells do the same work. The limit of a load is the variant's.
func compared(a, b *matrix.Cell) bool {
	one, other := a.Load, b.Load
	one.InFlightLimit = other.InFlightLimit
	return a.Part == b.Part && a.Place == b.Place && one == other
}

func partOf(c *matrix.Cell) string { return c.Part }
