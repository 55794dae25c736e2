package table

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// A key is a property by which cells differ. It is a column only where a part has cells
// that differ in it; otherwise it is said once, above its part or the whole table.
type key struct {
	title  string
	left   bool
	legend string
	text   func(*matrix.Cell) string
	said   func(*matrix.Cell) string // in a heading; empty where there is nothing to say
	seldom bool                      // most runs have nothing of it: a column only where cells differ
}

func keys() []key {
	workload := func(c *matrix.Cell) string { return c.Workload }
	return []key{
		{title: "workload", left: true, text: workload, said: workload},
		{title: "size", text: func(c *matrix.Cell) string { return c.Payload.Text(format.ByteSize, "→") }, said: saySizes},
		{title: "c", legend: "c: clients", text: ClientCount, said: DescribeClients},
		{title: "load", left: true, text: DescribeLoad, said: sayLoad},
		{title: "link", left: true, text: link, said: sayLink},
		{title: "agents", legend: "agents: those of a fleet that the clients are spread over", text: agents, said: sayAgents, seldom: true},
		{title: "conn", left: true, text: func(c *matrix.Cell) string { return c.Connection }, said: sayMode},
	}
}

// column returns the key as a column.
func (k key) column() column {
	return column{title: k.title, left: k.left, priority: stays, legend: k.legend, value: ofCell(k.text)}
}

// placeKeys tells the keys that all cells share from the others.
func placeKeys(cells []*matrix.Cell) (constant, varying []key) {
	for _, k := range keys() {
		if varies(cells, k.compare()) {
			varying = append(varying, k)
		} else {
			constant = append(constant, k)
		}
	}
	return constant, varying
}

// say says the keys of a cell.
func say(keys []key, c *matrix.Cell) string {
	var texts []string
	for _, k := range keys {
		if text := k.said(c); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, ", ")
}

// compare returns the text by which cells are compared. Each stack has its own way to keep connections,
// which a verbose legend lists: here it is the ways not to keep them that count.
func (k key) compare() func(*matrix.Cell) string {
	if k.title == "conn" {
		return k.said
	}
	return k.text
}

// runs splits the items wherever two neighbours are not the same.
func runs[T any](items []T, same func(a, b T) bool) (all [][]T) {
	first := 0
	for i := range items {
		if i+1 == len(items) || !same(items[i], items[i+1]) {
			all = append(all, items[first:i+1])
			first = i + 1
		}
	}
	return all
}

func varies(cells []*matrix.Cell, of func(*matrix.Cell) string) bool {
	return slices.ContainsFunc(cells, func(c *matrix.Cell) bool { return of(c) != of(cells[0]) })
}

func saySizes(c *matrix.Cell) string {
	if c.Payload == (record.Payload{}) { // the workload has no sizes
		return ""
	}
	return c.Payload.Text(func(bytes int) string { return units.Bytes(bytes, " ") }, " → ")
}

// ClientCount returns the number of clients as the text of a column.
func ClientCount(c *matrix.Cell) string {
	if c.Clients == 0 {
		return format.Absent
	}
	return strconv.Itoa(c.Clients)
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

// link returns what the link between the ends was asked to do.
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

// agents returns the number of machines of a fleet that the clients are spread over.
func agents(c *matrix.Cell) string {
	if c.Agents == 0 {
		return format.Absent
	}
	return strconv.Itoa(c.Agents)
}

func sayAgents(c *matrix.Cell) string {
	switch c.Agents {
	case 0:
		return ""
	case 1:
		return "from 1 agent of a fleet"
	}
	return "from " + strconv.Itoa(c.Agents) + " agents of a fleet"
}

func sayMode(c *matrix.Cell) string {
	if !modeNotInVariant(c) {
		return ""
	}
	return "conn=" + c.Connection
}

// modeNotInVariant reports whether a cell opens a connection for each request and its
// variant does not name that mode.
func modeNotInVariant(c *matrix.Cell) bool {
	return c.Connections.PerRequest && !strings.Contains(c.Variant, "conn=")
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
