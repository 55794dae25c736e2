package check

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// addressCalls returns the calls to each address of the service, in the order of t.ByAddress.
func (t trial) addressCalls() (all []record.ConnectionCalls) {
	for i, n := range t.ByAddress {
		h, err := n.Service.Decode()
		if err != nil {
			return nil // the matrix reports the error
		}
		all = append(all, record.ConnectionCalls{
			Client: i, Requests: n.Requests, Failed: n.Failed,
			SumNS: n.Service.Sum, P25NS: int64(h.Quantile(0.25)), P90NS: int64(h.Quantile(0.9)),
		})
	}
	return all
}

func (t trial) nameAddresses(some []record.ConnectionCalls) string {
	return firstNames(lists.Map(some, func(c record.ConnectionCalls) string { return t.ByAddress[c.Client].Name }))
}

// firstNames lists some names, and counts the others.
func firstNames(names []string) string {
	const most = 5
	if more := len(names) - most; more > 0 {
		names = append(slices.Clone(names[:most]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// uncalledAddresses says which addresses got no call, or accepted no connection at times.
func (t trial) uncalledAddresses() (found []string) {
	if t.Addresses == nil {
		return nil
	}
	if l := t.Addresses.LookUps; l != nil && l.Failed > 0 {
		found = append(found, fmt.Sprintf("%d of %d look-ups of the name failed, and requests then went to the same addresses as before: %s", l.Failed, l.Done, l.Example))
	}
	var idle []string
	for _, a := range t.Addresses.All {
		called := slices.ContainsFunc(t.ByAddress, func(n record.NamedCalls) bool { return n.Name == a.Address })
		switch {
		case a.Unreached > 0 && called:
			found = append(found, fmt.Sprintf("%s failed %s times to accept a connection, and other addresses got those requests: %s", a.Address, units.Thousands(a.Unreached), a.Example))
		case a.Unreached > 0:
			found = append(found, fmt.Sprintf("%s got no request, because it accepts no connection: %s", a.Address, a.Example))
		case !called:
			idle = append(idle, a.Address)
		}
	}
	if len(idle) > 0 && !t.Addresses.Changed() { // after a change, an address may have come late, or left early
		found = append(found, firstNames(idle)+" got no request: there are fewer connections than addresses: use more clients with -c, or more connections with --conn")
	}
	return found
}
