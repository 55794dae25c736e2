package lab

import (
	"errors"
	"slices"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
)

func TestWhatATrialNeedsIsHeldAgainstWhatThereIs(t *testing.T) {
	have := host.Limits{Files: 1024, Ports: 28_232, Backlog: 4096, TimeWait: time.Second, UDPReceive: 1 << 20}
	perRequest := trialDemand{
		clients: 500, connection: scenario.Connection{Mode: scenario.New},
		load: scenario.Load{Model: scenario.Closed, Total: 5000}, warmUp: time.Second,
	}
	kept := perRequest
	kept.connection.Mode = scenario.PerWorker
	naive := perRequest
	naive.naive = true
	far := perRequest
	far.delay = 5 * time.Millisecond
	open := perRequest
	open.load, open.warmUp = scenario.Load{Model: scenario.Open, Rate: 100, Duration: scenario.Duration(10 * time.Second)}, 0
	for name, c := range map[string]struct {
		demand         trialDemand
		ports, sources int64
	}{
		// Half of an address's ports are left free.
		"sized":        {perRequest, 500 + 20_000, 2},
		"kept":         {kept, 500, 1},
		"naive":        {naive, 500 + 20_000, 1},
		"at distance":  {far, 500 + 20_000, 2},
		"open, slowly": {open, 500 + 100, 1},
	} {
		limits := c.demand.limits(have)
		i := slices.IndexFunc(limits, func(l record.Limit) bool { return l.Name == "ports" })
		if l := limits[i]; l.Need != c.ports || l.Have != c.sources*have.Ports {
			t.Errorf("%s: %+v, want %d ports of %d addresses", name, l, c.ports, c.sources)
		}
		if got := c.demand.sources(have); int64(got) != c.sources {
			t.Errorf("%s: %d sources, want %d", name, got, c.sources)
		}
	}
}

func TestConnectionsBeyondTheLimitOfOpenFiles(t *testing.T) {
	part := scenario.Part{Clients: []int{10, 2000}, Connection: scenario.Connection{Mode: scenario.PerWorker}}
	const want = "2,000 clients need 2,064 open files, but this process may have 256: run `ulimit -n 4096` before, or raise LimitNOFILE= or limits.conf; or use fewer clients, or share connections with --conn"
	if err := checkFiles(part, 256); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := errors.Join(checkFiles(part, 2064), checkFiles(part, 0)); err != nil {
		t.Error(err)
	}
	part.Connection.Mode = scenario.Shared
	if err := checkFiles(part, 256); err != nil {
		t.Errorf("with a shared connection: %v", err)
	}
}
