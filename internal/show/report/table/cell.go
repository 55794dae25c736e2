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

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// An AnswerStatus counts a service's answers with one status.
type AnswerStatus struct {
	Name  string `json:"name"` // such as "200 OK" of HTTP, or "Unavailable" of gRPC
	Count int64  `json:"count"`
	Bad   bool   `json:"bad"` // calls with this status count as failed by default
}

// AnswerSizes holds the sizes of the answers of calls that did not fail: of HTTP bodies, or of the
// messages of gRPC calls.
type AnswerSizes struct {
	Count       int64 `json:"count"` // number of answers
	MinBytes    int64 `json:"min_bytes"`
	MaxBytes    int64 `json:"max_bytes"`
	MedianBytes int64 `json:"median_bytes"` // rounded down by less than an eighth, if there are many sizes
	// Sizes lists the sizes in ascending order; absent if there are more than 32.
	Sizes []record.SizeCount `json:"sizes,omitempty"`
}

// SizesOf returns the sizes of answers, or nil if none is known.
func SizesOf(a *record.Answers) *AnswerSizes {
	if a == nil || a.Count() == 0 {
		return nil
	}
	sizes := &AnswerSizes{Count: a.Count(), MinBytes: a.MinBytes, MaxBytes: a.MaxBytes, MedianBytes: a.Median()}
	if len(a.Rounded) == 0 {
		sizes.Sizes = a.Sizes
	}
	return sizes
}

// shownSizes is the greatest number of sizes that are shown one by one.
const shownSizes = 4

// String describes the sizes: "12 of 0 B, 588 of 21 B", or "600 of 10 B to 4 KiB, median 812 B".
func (s *AnswerSizes) String() string {
	size := func(bytes int64) string { return units.Bytes(int(bytes), " ") }
	if n := len(s.Sizes); n > 0 && n <= shownSizes {
		return strings.Join(lists.Map(s.Sizes, func(one record.SizeCount) string {
			return units.Thousands(one.Count) + " of " + size(one.Bytes)
		}), ", ")
	}
	median := "median "
	if s.Sizes == nil {
		median += "about "
	}
	return fmt.Sprintf("%s of %s to %s, %s%s", units.Thousands(s.Count), size(s.MinBytes), size(s.MaxBytes), median, size(s.MedianBytes))
}

var protocolNames = map[string]string{
	"h1": "HTTP/1.1", "h2": "HTTP/2", "h3": "HTTP/3", "grpc": "gRPC", "grpc-h3": "gRPC on HTTP/3", "ws": "WebSocket",
}

// DescribeCall describes a service's request and protocol: GET /items over HTTP/1.1. Of two versions
// it returns the name, because only the versions differ.
func DescribeCall(c *record.Cell) string {
	if version := c.Version(); version != "" {
		return version
	}
	wire, others := c.Wire()
	text := c.Workload + " over " + cmp.Or(protocolNames[wire], wire)
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
		if strings.HasPrefix(wire, "grpc") || s.Status < http.StatusContinue { // users may have steps of both
			all = append(all, AnswerStatus{Name: codes.Code(s.Status).String(), Count: s.Count, Bad: s.Status != int(codes.OK)})
			continue
		}
		name := strings.TrimSpace(fmt.Sprintf("%d %s", s.Status, http.StatusText(s.Status)))
		all = append(all, AnswerStatus{Name: name, Count: s.Count, Bad: s.Status >= http.StatusBadRequest})
	}
	return all
}

// CellName returns the request, protocol and number of clients of a service's cell.
func CellName(c *record.Cell) string {
	return fmt.Sprintf("%s, %s", DescribeCall(c), describeCount(c.Clients))
}

func describeCount(clients int) string {
	if clients == 1 {
		return "1 client"
	}
	return units.Thousands(int64(clients)) + " clients"
}

func describeSizes(c *matrix.Cell) string {
	if c.Payload == (record.Payload{}) { // the workload has no sizes
		return ""
	}
	return c.Payload.Text(func(bytes int) string { return units.Bytes(bytes, " ") }, " → ")
}

// ClientCount returns the number of clients as text for a column.
func ClientCount(c *matrix.Cell) string { return formatCount(c.Clients) }

// formatCount returns a count as text, or a dash for 0, which means unknown.
func formatCount(n int) string {
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
	return describeCount(c.Clients)
}

func loadHeading(c *matrix.Cell) string {
	switch text := DescribeLoad(c); text {
	case "closed", "open":
		return text + " loop"
	case record.UnknownLoad:
		return "load unknown"
	default:
		return text
	}
}

func linkText(c *matrix.Cell) string {
	switch n := c.Network; {
	case n.Link != "":
		return n.Link
	case n.DelayNS > 0: // an old record, without the link's text
		return "delay=" + time.Duration(n.DelayNS).String()
	}
	return "loopback"
}

func describeLink(c *matrix.Cell) string {
	if !c.Network.Linked() {
		return ""
	}
	return "over a link with " + linkText(c)
}

func describeAgents(c *matrix.Cell) string {
	if c.Agents == 0 {
		return ""
	}
	return "from " + words.Count(c.Agents, "agent") + " of a fleet"
}

// describeConnectionMode returns the mode if each request opens a connection and the variant's name
// does not state the mode.
func describeConnectionMode(c *matrix.Cell) string {
	if !c.Connections.PerRequest || strings.Contains(c.Variant, "conn=") {
		return ""
	}
	return "conn=" + c.Connection
}

// DescribeLoad describes how requests are sent. It omits the in-flight limit, which is in the
// variant's name.
func DescribeLoad(c *matrix.Cell) string {
	switch l := c.Load; {
	case l.Burst > 0:
		return "burst of " + units.Thousands(int64(l.Burst))
	case l.RampTo > 0:
		return "ramp " + format.PerSecond(l.RatePerSecond) + " to " + format.PerSecond(l.RampTo) + "/s"
	case l.Stages != "" && l.RatePerSecond > 0:
		return "ramp from " + format.PerSecond(l.RatePerSecond) + "/s by " + string(l.Stages)
	case l.Stages != "":
		return "ramp " + string(l.Stages)
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

// SortedCells returns the cells in the table's order: by part, workload, size, clients and rate.
func SortedCells(cells []matrix.Cell) []*matrix.Cell {
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

// sameWork reports whether part, workload, size, clients and load are equal. The in-flight limit
// may differ.
func sameWork(a, b *matrix.Cell) bool {
	one, other := a.Load, b.Load
	one.InFlightLimit = other.InFlightLimit
	return a.Part == b.Part && a.Place == b.Place && one == other
}

func partName(c *matrix.Cell) string { return c.Part }
