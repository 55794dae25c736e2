package spread

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
)

// A table is one state of the addresses. It does not change.
type table struct {
	places []*place
	homes  []*place // by caller, or by stream; callers beyond it have the homes of the first ones
}

// arrange returns a table of places with a number of homes; 0 if calls take turns. Callers keep the homes that they had before, as far as all
// places get the same number of callers.
func arrange(places, before []*place, homes int) *table {
	t := &table{places: places, homes: make([]*place, homes)}
	free := map[*place]int{}
	for i, p := range places {
		free[p] = len(t.homes) / len(places)
		if i < len(t.homes)%len(places) {
			free[p]++
		}
	}
	for i, home := range before {
		if free[home] > 0 {
			t.homes[i] = home
			free[home]--
		}
	}
	next := 0
	for i, home := range t.homes {
		for ; home == nil; next++ {
			if p := places[next%len(places)]; free[p] > 0 {
				home, t.homes[i] = p, p
				free[p]--
			}
		}
	}
	return t
}

// awaitOpen waits for the places that are being opened, until one is open. It returns nil if none is.
func awaitOpen(ctx context.Context, t *table) *place {
	for _, p := range t.places {
		if ended := p.opening.Load(); ended != nil {
			select {
			case <-*ended:
			case <-ctx.Done():
				return nil
			}
			if p.client.Load() != nil {
				return p
			}
		}
	}
	return nil
}

// A caller is one client of the load. One goroutine uses it.
type caller struct {
	number int
	states map[*place]any // what each place's engine keeps of the caller
	of     *table         // the table of the round
	round  []*place
	turn   int
}

// follow begins a new round if the table is another one, and forgets the places that left.
func (c *caller) follow(t *table) {
	if c.of == t {
		return
	}
	c.of, c.round = t, nil
	maps.DeleteFunc(c.states, func(p *place, _ any) bool { return !slices.Contains(t.places, p) })
}

// nextTurn returns the places in the order of the caller's round, and whose turn it is. The first
// round begins at another place for each caller.
func (c *caller) nextTurn(t *table) (round []*place, at int) {
	switch {
	case c.round == nil:
		at := c.number % len(t.places)
		c.round, c.turn = slices.Concat(t.places[at:], t.places[:at]), 0
	case c.turn == len(c.round):
		rand.Shuffle(len(c.round), func(i, j int) { c.round[i], c.round[j] = c.round[j], c.round[i] })
		c.turn = 0
	}
	c.turn++
	return c.round, c.turn - 1
}

// order returns the places in the caller's order, and the place of its next call.
func (c *caller) order(t *table) (places []*place, at int) {
	if len(t.homes) == 0 {
		return c.nextTurn(t)
	}
	return t.places, slices.Index(t.places, t.homes[c.number%len(t.homes)])
}
