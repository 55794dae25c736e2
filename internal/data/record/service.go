package record

import (
	"fmt"
	"strings"
)

// ServiceStack is the stack of cells whose clients call a service of the user's own. Their
// variant names the wire, as in service:wire=h2, and their workload names the request.
const ServiceStack = "service"

// A Kind holds what differs between cells of wirelab's own stacks and cells of a user's service.
// Code that reads records asks for these properties, and never for the kind itself.
type Kind struct {
	VariantTitle string // of the column with the variants
	Command      string // of wirelab, that measures such cells

	// Properties of a server that wirelab neither made nor placed. Only the server
	// decides what it does, and how large its messages are.

	Unplaced bool // it runs where its user put it, so its unknown figures are no fault
	MayFail  bool // failures and closed connections are findings about the server; a client at its limit is not
	MayBeFew bool // a few requests are a measurement

	// Properties of the report.

	InDetail bool // statuses, spread and a fine course are shown, also of trials that are refused
	Alone    bool // no variant is chosen from several: the answer describes the service
}

var (
	stackKind   = &Kind{VariantTitle: "stack", Command: "compare"}
	serviceKind = &Kind{
		VariantTitle: "wire", Command: "load",
		Unplaced: true, MayFail: true, MayBeFew: true, InDetail: true, Alone: true,
	}
)

// Kind returns the properties of the cell's kind.
func (c Cell) Kind() *Kind {
	if c.Stack == ServiceStack {
		return serviceKind
	}
	return stackKind
}

// Wire returns the wire of a service's calls, and the variant's other options.
func (c Cell) Wire() (wire string, others []string) {
	for option := range strings.SplitSeq(strings.TrimPrefix(c.Variant, c.Stack+":"), ",") {
		if name, is := strings.CutPrefix(option, "wire="); is {
			wire = name
		} else {
			others = append(others, option)
		}
	}
	return wire, others
}

// ShortVariant names the variant. It names a service by its wire, since all have the same stack.
func (c Cell) ShortVariant() string {
	if c.Stack != ServiceStack {
		return c.Variant
	}
	wire, others := c.Wire()
	return strings.Join(append([]string{wire}, others...), ",")
}

// foreignKey returns a key that begins with the tool. No part of wirelab's own cells has such a name.
func (c Cell) foreignKey() string {
	clients := "c=?"
	if c.Clients > 0 {
		clients = fmt.Sprintf("c=%d", c.Clients)
	}
	return fmt.Sprintf("%s/%s/%s/%s", c.Part, c.Tool, strings.TrimPrefix(c.Workload, "/"), clients)
}
