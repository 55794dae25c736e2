package record

import (
	"fmt"
	"strings"
)

// ServiceStack is the stack of cells whose clients call a service of the user's own. Their
// variant says the wire, as in service:wire=h2, and the workload what is asked.
const ServiceStack = "service"

// IsService reports whether the cell's clients call a service of the user's own: what it
// does, and how large its messages are, is for it to say.
func (c Cell) IsService() bool { return c.Stack == ServiceStack }

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

// ShortVariant names the variant: of a service by its wire, since all have the same stack.
func (c Cell) ShortVariant() string {
	if !c.IsService() {
		return c.Variant
	}
	wire, others := c.Wire()
	return strings.Join(append([]string{wire}, others...), ",")
}

// foreignKey begins with the tool, as no part of wirelab's own cells is called.
func (c Cell) foreignKey() string {
	clients := "c=?"
	if c.Clients > 0 {
		clients = fmt.Sprintf("c=%d", c.Clients)
	}
	return fmt.Sprintf("%s/%s/%s/%s", c.Part, c.Tool, strings.TrimPrefix(c.Workload, "/"), clients)
}
