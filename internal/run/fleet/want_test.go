package fleet

import (
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// What is on this machine's loopback is not there for other machines.
func TestLoopbackIsNotReachedFromElsewhere(t *testing.T) {
	loopback, lan := map[string]string{"service": "127.0.0.1:80"}, map[string]string{"service": "10.0.0.5:80"}
	if err := CheckReach("c1", loopback); err == nil || !strings.Contains(err.Error(), "c1") {
		t.Errorf("loopback from another machine: %v", err)
	}
	for name, err := range map[string]error{"from this machine": CheckReach("", loopback), "over a network": CheckReach("c1", lan), "no target": CheckReach("c1", nil)} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatAFleetIsWantedFor(t *testing.T) {
	for name, c := range map[string]struct {
		flags record.FleetWanted
		given bool   // the server
		want  string // of an error; empty: none
	}{
		"nothing":                 {record.FleetWanted{}, false, ""},
		"a fleet":                 {record.FleetWanted{Hub: "lab"}, false, ""},
		"no fleet":                {record.FleetWanted{Client: "role=client"}, false, "name the fleet with --fleet"},
		"a server that is given":  {record.FleetWanted{Hub: "lab", Server: "role=server"}, true, "the server already runs"},
		"two servers":             {record.FleetWanted{Hub: "lab", Server: "role=server*2"}, false, "want a selector of exactly one agent"},
		"no selector":             {record.FleetWanted{Hub: "lab", Client: "clients"}, false, "--client: "},
		"a given server's client": {record.FleetWanted{Hub: "lab", Client: "role=client*3"}, true, ""},
	} {
		w, err := CheckFleetWanted(c.flags, c.given)
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		case c.want == "" && c.flags.Hub != "" && (w.Client == "" || (w.Server == "") != c.given):
			t.Errorf("%s: %+v", name, w)
		}
	}
}
