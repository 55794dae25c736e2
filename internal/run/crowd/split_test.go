package crowd

import (
	"reflect"
	"strings"
	"testing"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/worker"
)

func splittable(clients int) worker.Spec {
	return worker.Spec{
		Contract: worker.Contract, Role: worker.ClientRole, Stack: "tcp", Address: "server:1",
		Client: &worker.ClientSpec{
			Clients: clients, Connection: "pool:7", Seed: 42, SamplesFile: "samples.parquet", IntervalNS: 1e9,
			Load: worker.Load{Model: scenario.Open, RatePerSecond: 900, Burst: 30, ExtraRequests: 3, InFlightLimit: 11, Arrivals: "poisson"},
		},
	}
}

func TestSplitSharesAllAndLosesNothing(t *testing.T) {
	for _, c := range []struct{ clients, parts int }{{10, 2}, {10, 3}, {7, 7}, {5, 3}, {1000, 6}} {
		whole := splittable(c.clients)
		specs, err := Split(whole, c.parts)
		if err != nil {
			t.Fatalf("%d clients on %d: %v", c.clients, c.parts, err)
		}
		first, limit, connections := 0, 0, 0
		for i, s := range specs {
			part := s.Client
			if part.Group == nil || part.Group.First != first || part.Group.Of != c.clients {
				t.Errorf("part %d of %d clients on %d is %+v, want it to begin at %d", i, c.clients, c.parts, part.Group, first)
			}
			if fewest := c.clients / c.parts; part.Clients < fewest || part.Clients > fewest+1 {
				t.Errorf("part %d of %d clients on %d has %d", i, c.clients, c.parts, part.Clients)
			}
			if i > 0 && part.Clients > specs[i-1].Client.Clients {
				t.Errorf("part %d has more clients than the one before", i)
			}
			mine := parseSize(t, part.Connection)
			if mine < 1 || part.Load.InFlightLimit < 1 {
				t.Errorf("part %d has the limit %d and %d connections", i, part.Load.InFlightLimit, mine)
			}
			first += part.Clients
			limit += part.Load.InFlightLimit
			connections += mine

			part.Clients, part.Group, part.Connection, part.Load.InFlightLimit = c.clients, nil, "pool:7", 11
			if !reflect.DeepEqual(s, splittable(c.clients)) {
				t.Errorf("part %d differs in more than what is shared: %+v", i, s)
			}
		}
		if first != c.clients || limit != 11 || connections != 7 {
			t.Errorf("%d clients on %d: %d clients, a limit of %d and %d connections in all", c.clients, c.parts, first, limit, connections)
		}
		if !reflect.DeepEqual(whole, splittable(c.clients)) {
			t.Error("the spec that was split has changed")
		}
	}
}

func parseSize(t *testing.T, mode string) int {
	t.Helper()
	size, found := strings.CutPrefix(mode, "pool:")
	if !found || len(size) != 1 {
		t.Fatalf("connection %q, want a pool of up to 9", mode)
	}
	return int(size[0] - '0')
}

// What is shared goes with the clients: three of five have three fifths.
func TestSplitGoesWithTheClients(t *testing.T) {
	whole := splittable(5)
	whole.Client.Load.InFlightLimit, whole.Client.Connection = 10, "pool:5"
	specs, err := Split(whole, 2)
	if err != nil {
		t.Fatal(err)
	}
	a, b := specs[0].Client, specs[1].Client
	if a.Load.InFlightLimit != 6 || b.Load.InFlightLimit != 4 || a.Connection != "pool:3" || b.Connection != "pool:2" {
		t.Errorf("limits %d and %d, connections %s and %s; want 6, 4, pool:3, pool:2", a.Load.InFlightLimit, b.Load.InFlightLimit, a.Connection, b.Connection)
	}
}

func TestSplitInOneIsTheSpec(t *testing.T) {
	for _, model := range []scenario.LoadModel{scenario.Open, scenario.Search} {
		whole := splittable(1)
		whole.Client.Load.Model = model
		specs, err := Split(whole, 1)
		if err != nil || len(specs) != 1 || !reflect.DeepEqual(specs[0], whole) {
			t.Errorf("%s: %+v, %v; want the spec as it is", model, specs, err)
		}
	}
}

func TestSplitKeepsModesWithoutASize(t *testing.T) {
	for _, mode := range []string{"shared", "per-worker", "new"} {
		whole := splittable(4)
		whole.Client.Connection, whole.Client.Load.InFlightLimit = mode, 0
		specs, err := Split(whole, 2)
		if err != nil || specs[0].Client.Connection != mode || specs[1].Client.Load.InFlightLimit != 0 {
			t.Errorf("%s: %v, %v", mode, specs, err)
		}
	}
}

func TestSplitRefuses(t *testing.T) {
	for says, change := range map[string]func(*worker.Spec){
		"2 clients cannot be spread over 3 machines":      func(s *worker.Spec) { s.Client.Clients = 2 },
		"an in-flight limit of 2 cannot be spread over 3": func(s *worker.Spec) { s.Client.Load.InFlightLimit = 2 },
		"a pool of 1 cannot be spread over 3":             func(s *worker.Spec) { s.Client.Connection = "pool:1" },
		"9 clients of a group of 20":                      func(s *worker.Spec) { s.Client.Group = &worker.Group{Of: 20} },
		`connection "many"`:                               func(s *worker.Spec) { s.Client.Connection = "many" },
		`the role "server" and no clients`:                func(s *worker.Spec) { s.Role, s.Client = worker.ServerRole, nil },
	} {
		whole := splittable(9)
		change(&whole)
		if _, err := Split(whole, 3); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: want an error that says %q", err, says)
		}
	}
	if _, err := Split(splittable(9), 0); err == nil || !strings.Contains(err.Error(), "want at least 1") {
		t.Errorf("no part: %v", err)
	}
}
