package load

import "context"

// ownCostRequests is the number of requests of OwnCost: some milliseconds.
const ownCostRequests = 50_000

type noopCaller struct{}

func (noopCaller) Call(context.Context) error { return nil }

// OwnCost measures the load generator's own time for a request, in nanoseconds,
// with a closed loop of one client whose calls do nothing. It returns the minimum
// of three runs, because disturbances only make a run longer, and 0 if ctx ends
// first.
func OwnCost(ctx context.Context) float64 {
	const tries = 3
	least := 0.0
	for range tries {
		r, err := Run(ctx, Plan{Callers: []Caller{noopCaller{}}, Requests: ownCostRequests})
		if err != nil {
			return 0
		}
		cost := float64(r.End-r.Begin) / float64(r.Requests)
		if least == 0 || cost < least {
			least = cost
		}
	}
	return least
}
