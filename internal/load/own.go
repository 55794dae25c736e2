package load

import "context"

// ownCostRequests is how many requests OwnCost makes: some milliseconds' worth.
const ownCostRequests = 50_000

type atOnce struct{}

func (atOnce) Call(context.Context) error { return nil }

// OwnCost measures what a request costs the engine itself, in nanoseconds: a
// closed loop of one client over a stack that answers at once. It is the least
// of a few tries, because whatever disturbs one makes it longer. It is 0 where
// ctx ended first.
func OwnCost(ctx context.Context) float64 {
	const tries = 3
	least := 0.0
	for range tries {
		r, err := Run(ctx, Plan{Callers: []Caller{atOnce{}}, Requests: ownCostRequests})
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
