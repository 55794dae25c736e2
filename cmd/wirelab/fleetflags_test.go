package main

import (
	"strings"
	"testing"
)

// What is on this machine's loopback is not there for other machines.
func TestLoopbackIsNotReachedFromElsewhere(t *testing.T) {
	loopback, lan := map[string]string{"service": "127.0.0.1:80"}, map[string]string{"service": "10.0.0.5:80"}
	if err := checkReach("c1", loopback); err == nil || !strings.Contains(err.Error(), "c1") {
		t.Errorf("loopback from another machine: %v", err)
	}
	for name, err := range map[string]error{"from this machine": checkReach("", loopback), "over a network": checkReach("c1", lan), "no target": checkReach("c1", nil)} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatAFleetIsWantedFor(t *testing.T) {
	for name, c := range map[string]struct {
		flags fleetFlags
		given bool   // the server
		want  string // of an error; empty: none
	}{
		"nothing":                 {fleetFlags{}, false, ""},
		"a fleet":                 {fleetFlags{hub: "lab"}, false, ""},
		"no fleet":                {fleetFlags{client: "role=client"}, false, "name it with --fleet"},
		"a server that is given":  {fleetFlags{hub: "lab", server: "role=server"}, true, "the server is given"},
		"two servers":             {fleetFlags{hub: "lab", server: "role=server*2"}, false, "want one agent"},
		"no selector":             {fleetFlags{hub: "lab", client: "clients"}, false, "--client: "},
		"a given server's client": {fleetFlags{hub: "lab", client: "role=client*3"}, true, ""},
	} {
		w, err := c.flags.wanted(c.given)
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		case c.want == "" && c.flags.hub != "" && (w.Client == "" || (w.Server == "") != c.given):
			t.Errorf("%s: %+v", name, w)
		}
	}
}
