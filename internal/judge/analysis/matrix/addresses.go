package matrix

import (
	"math"
	"slices"

	"wirelab.dev/internal/base/sum"
	"wirelab.dev/internal/data/record"
)

// Addresses compares the addresses of a service, over all trials.
type Addresses struct {
	Policy  string           `json:"policy" jsonschema:"enum=all,enum=least"` // how calls are divided among them
	All     []AddressFigures `json:"all"`
	LookUps *record.LookUps  `json:"look_ups,omitempty"` // absent if the name was not looked up during the load
}

// AddressFigures holds the figures of the requests to one address.
type AddressFigures struct {
	Address   string   `json:"address"`             // IP:PORT
	Unreached int64    `json:"unreached,omitempty"` // attempts to connect that failed; their requests went to other addresses
	Example   string   `json:"example,omitempty"`   // the error of the first one
	Requests  int64    `json:"requests"`            // in the window, failed ones included
	Failed    int64    `json:"failed"`
	MeanUS    *float64 `json:"mean_us,omitempty"` // response time, from the instant when a request was due; absent without requests
	P50US     *float64 `json:"p50_us,omitempty"`
	P99US     *float64 `json:"p99_us,omitempty"` // absent with too few requests
}

// addressesOf returns the figures of all addresses, or nil if the service has only one.
func addressesOf(all, timed []Trial) *Addresses {
	var seen *record.Addresses
	for _, t := range all {
		seen = sum.AddPresent(seen, t.Addresses)
	}
	if seen == nil {
		return nil
	}
	calls := callTimes(timed, func(t Trial) ([]record.NamedCalls, []times) { return t.ByAddress, t.placed })
	a := &Addresses{Policy: seen.Policy, LookUps: seen.LookUps}
	for _, one := range seen.All {
		f := AddressFigures{Address: one.Address, Unreached: one.Unreached, Example: one.Example}
		if i := slices.IndexFunc(calls, func(c CallTimes) bool { return c.Name == one.Address }); i >= 0 {
			f.Requests, f.Failed = calls[i].Requests, calls[i].Failed
			of := &calls[i].Times
			f.MeanUS, f.P50US, f.P99US = ifKnown(of.Mean), ifKnown(of.P50), ifKnown(of.P99)
		}
		a.All = append(a.All, f)
	}
	return a
}

func ifKnown(f Figure) *float64 {
	if math.IsNaN(f.Value) {
		return nil
	}
	return &f.Value
}
