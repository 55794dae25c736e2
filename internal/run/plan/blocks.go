package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
)

// Blocks puts the variants of each point of a repeat together, so that they are measured as a
// block, by turns. It keeps the order of the plan otherwise. A trial that cannot take turns, or whose
// point has no other one that can, stays alone.
func Blocks(trials []scenario.PlannedCell) []scenario.PlannedCell {
	type point struct {
		repeat int
		key    string
	}
	points := map[point][]int{}
	for i, t := range trials {
		if WhyAlone(t.Cell) == "" {
			at := point{t.Repeat, pointOf(t.Cell)}
			points[at] = append(points[at], i)
		}
	}
	var all []scenario.PlannedCell
	planned := make([]bool, len(trials))
	for i, t := range trials {
		if planned[i] {
			continue
		}
		members := points[point{t.Repeat, pointOf(t.Cell)}]
		if WhyAlone(t.Cell) != "" || len(members) < 2 {
			all = append(all, t)
			continue
		}
		for _, member := range members {
			planned[member] = true
			one := trials[member]
			one.Block = 1 + i
			all = append(all, one)
		}
	}
	return all
}

// NotInSlices names the variants of a scenario that cannot take turns with the others of their
// points, one text per reason.
func NotInSlices(s *scenario.Scenario) []string {
	var reasons []string
	variants := map[string][]string{}
	isAlone := map[string]bool{} // parts with a single variant
	for _, p := range s.Parts {
		isAlone[p.Name] = len(p.Stacks) < 2
	}
	for _, trial := range Blocks(s.Plan()) {
		if !trial.Cell.Slices || trial.Block != 0 || trial.Cell.Probe != "" || isAlone[trial.Cell.Part] {
			continue
		}
		why := cmp.Or(WhyAlone(trial.Cell), "no other variant of its point can take turns with it")
		reasons = lists.AppendNew(reasons, why)
		variants[why] = lists.AppendNew(variants[why], trial.Cell.Variant.String())
	}
	return lists.Map(reasons, func(why string) string {
		return fmt.Sprintf("measured without slices: %s: %s", strings.Join(variants[why], ", "), why)
	})
}

// pointOf returns the same text for cells that differ in their variant only.
func pointOf(c scenario.Cell) string {
	c.Variant = scenario.Variant{}
	return fmt.Sprintf("%+v", c)
}

// longestQueue is the longest time that bytes wait in a link whose trials can take turns: what one
// leaves there must be gone before the next turn.
const longestQueue = time.Millisecond

// WhyAlone explains why a cell cannot take turns with others, or returns "" if it can.
func WhyAlone(c scenario.Cell) string {
	up, down := c.Network.Directions()
	client, isPeer := catalog.ClientPeer(c.Variant)
	switch {
	case !c.Slices:
		return "the scenario asks for one variant after another"
	case c.Load.Model != scenario.Closed && c.Load.Model != scenario.Open:
		return fmt.Sprintf("a load of the model %s takes its course only once", c.Load.Model)
	case c.Load.Duration <= 0 || c.Load.Total > 0:
		return "a number of requests has no slices"
	case c.WarmUp.AtMost <= 0:
		return "it has no warm-up"
	case c.Connection.Mode.PerRequest():
		return "each request opens a connection, and leaves a port behind that the next turn lacks"
	case time.Duration(c.Load.Duration) < lab.ShortestTurns(c.QueueTime()):
		return fmt.Sprintf("%d callers of %d bytes wait too long for each other to take turns within %v", c.Clients, c.Size.Request+c.Size.Response, time.Duration(c.Load.Duration))
	case c.Probe != "":
		return "it has a probe"
	case isPeer && !slices.Contains(client.Controls, string(worker.SlicesControl)):
		return fmt.Sprintf("its client, the peer %s, knows no slices", client.Name)
	case up.Loss > 0 || down.Loss > 0 || up.BurstLoss.Share > 0 || down.BurstLoss.Share > 0:
		return "the link loses packets by their numbers"
	case c.Network.RoundTrip() > longestQueue || up.Rate > 0 || down.Rate > 0:
		return "the link holds packets for longer than the time between two turns"
	}
	if _, foreign := stack.ForeignClient(c.Variant); foreign {
		return "another program makes the calls"
	}
	return ""
}
