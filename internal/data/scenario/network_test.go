package scenario

import (
	"strings"
	"testing"
	"time"
)

// parseWith reads the good file with more lines in its part.
func parseWith(lines string) (*Scenario, error) {
	return Parse("s.yaml", []byte(strings.Replace(good, "[1, 50]", "[1, 50]\n    "+lines, 1)), words)
}

func TestNetwork(t *testing.T) {
	lte := Path{Delay: Duration(35 * time.Millisecond), Rate: 12e6}
	for line, want := range map[string]Network{
		"network: {ports: 2000, time-wait-reuse: false}": {Ports: 2000},
		"network: {time-wait-reuse: true}":               {TimeWaitReuse: true},
		"network: {delay: 5ms}":                          {Path: Path{Delay: Duration(5 * time.Millisecond)}},
		"network: {delay: 5ms, jitter: 1ms, loss: 1%, burst-loss: 0.5%/4, reorder: 0.01, duplicate: 0.1%, rate: 1.5Mbit/s, queue: 64KiB, mtu: 1400, seed: 7, emulated: true}": {
			Path: Path{
				Delay: Duration(5 * time.Millisecond), Jitter: Duration(time.Millisecond), Loss: 0.01, BurstLoss: BurstLoss{0.005, 4},
				Reorder: 0.01, Duplicate: 0.001, Rate: 1.5e6, Queue: 64 << 10,
			}, MTU: 1400, Seed: 7, Emulated: true,
		},
		"network: {profile: lte}":                {Path: lte},
		"network: {profile: lte, rate: 5Mbit/s}": {Path: Path{Delay: lte.Delay, Rate: 5e6}},
		// A way's own keys win over those outside, and both over the profile's.
		"network: {profile: lte, loss: 1%, up: {rate: 5Mbit/s, loss: 0}}": {
			Up: Path{Delay: lte.Delay, Rate: 5e6}, Down: Path{Delay: lte.Delay, Rate: lte.Rate, Loss: 0.01},
		},
		"network: {delay: 1ms, down: {delay: 0s}}": {Up: Path{Delay: Duration(time.Millisecond)}},
	} {
		s, err := parseWith(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		for _, c := range s.cells() {
			if c.Network != want {
				t.Errorf("%s: cell %s has %+v", line, c.key(), c.Network)
			}
		}
	}
	for line, says := range map[string]string{
		"network: {ports: 1}":                              "want 2 to 32768",
		"network: {ports: 40000}":                          "want 2 to 32768",
		"network: {delay: -1ms}":                           "delay",
		"network: {delay: 11s}":                            "want 0s to 10s",
		"network: {bandwidth: 1}":                          "unknown key",
		"network: {jitter: 1ms}":                           "want 0s to the delay (0s)",
		"network: {loss: 100%}":                            "below 100%",
		"network: {burst-loss: 1%}":                        "as in 1%/5",
		"network: {rate: 50Mbps}":                          "as in 50Mbit/s",
		"network: {queue: 1KiB}":                           "a queue needs a rate",
		"network: {queue: 1KiB, rate: 1Mbit/s}":            "at least a packet with its header, 1514 bytes, found 1024",
		"network: {burst-loss: 90%/2}":                     "lose at most 66.7%",
		"network: {rate: 5000bit/s}":                       "from 9.6kbit/s",
		"network: {mtu: 100}":                              "want 576 to 9000",
		"network: {profile: lan5}":                         "want one of lan, lte,",
		"networks: []":                                     "want at least one",
		"networks: [{delay: 1ms}]":                         "the network needs a name",
		"networks: [{name: a}, {name: a, delay: 1ms}]":     "a second part named",
		"networks: [{name: a}]\n    network: {delay: 1ms}": "leave one of them out",
		"network: {ports: default}":                        "want a number",
		"network: {profile: lte}\nprofiles: [{name: lte, delay: 1ms}, {name: lte}]": "a second profile",
	} {
		if _, err := parseWith(line); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want something of %q", line, err, says)
		}
	}
}

func TestATotalOfRequestsIsOfAllClients(t *testing.T) {
	s, err := parseWith("load: {model: closed, total-requests: 5000}")
	if err != nil {
		t.Fatal(err)
	}
	cells := s.cells()
	if got, want := s.samples(), int64(5000*len(cells)); got != want {
		t.Errorf("%d requests in %d cells, want %d", got, len(cells), want)
	}
	s.Reduction = Reduction{Requests: 0.001, MaxClients: 20, Repeats: 1}
	if got := s.Quick().Parts[0].Load.Total; got != 20 {
		t.Errorf("reduced to %d requests, want 20: one for each client", got)
	}
	for line, says := range map[string]string{
		"load: {model: closed, total-requests: 49}":                       "fewer than the 50 clients",
		"load: {model: closed, total-requests: 99, requests: 9}":          "one of requests",
		"load: {model: burst, requests: 9, total-requests: 9}":            "has no total-requests",
		"load: {model: open, rate: 9, duration: 10s, total-requests: 99}": "9 per second for 10s are 90 requests, fewer than the 99",
		"load: {model: closed, total-requests: -1}":                       "want 1 to",
	} {
		if _, err := parseWith(line); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want something of %q", line, err, says)
		}
	}
}

func TestNetworksArePartsOfTheirOwn(t *testing.T) {
	s, err := parseWith("networks: [{name: near}, {name: far, profile: mine}]\nprofiles: [{name: mine, delay: 3ms}]")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Parts) != 2 || s.Parts[0].Network.HasLink() || !s.Parts[1].Network.HasLink() || len(s.Profiles) != 0 {
		t.Fatalf("%+v", s.Parts)
	}
	if both, err := s.Only("a"); err != nil || len(both.Parts) != 2 {
		t.Errorf("the part's own name chooses %+v, %v", both, err)
	}
	if near, far := s.Parts[0], s.Parts[1]; near.Name != "a-near" || far.Name != "a-far" || far.Of != "a" || far.Network.String() != "delay=3ms" {
		t.Errorf("parts %q and %q of %q, the latter over %v", near.Name, far.Name, far.Of, far.Network)
	}
}

func TestAScenarioReplacesAProfile(t *testing.T) {
	s, err := parseWith("network: {profile: lte}\nprofiles: [{name: lte, delay: 20ms}]")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Parts[0].Network.String(); got != "delay=20ms" {
		t.Errorf("the link has %s, want the scenario's own delay=20ms and no rate", got)
	}
}

func TestLinksOfOneLine(t *testing.T) {
	for line, want := range map[string]string{
		"delay=5ms,loss=1%":               "delay=5ms,loss=1%",
		"lte":                             "delay=35ms,rate=12Mbit/s",
		"lte,loss=0.5%,rate=2Gbit/s":      "delay=35ms,loss=0.5%,rate=2Gbit/s",
		"lte,up.rate=1Mbit/s":             "up.delay=35ms,up.rate=1Mbit/s,down.delay=35ms,down.rate=12Mbit/s",
		"burst-loss=1%/5,seed=3,mtu=1400": "burst-loss=1%/5,mtu=1400,seed=3",
		"emulated=true":                   "emulated=true",
		"rate=1Mbit/s,queue=64KiB":        "rate=1Mbit/s,queue=64KiB",
	} {
		n, err := ParseLink(line)
		if err != nil || n.String() != want {
			t.Errorf("%s: %v, %v; want %s", line, n, err, want)
			continue
		}
		if again, err := ParseLink(want); err != nil || again != n {
			t.Errorf("%s is read as %+v, %v", want, again, err)
		}
	}
	for line, says := range map[string]string{
		"":                    "want a profile (lan, metro",
		"mars":                "unknown profile",
		"delay=5":             "want a number and its unit",
		"delay=5ms,delay=6ms": "given twice",
		"loss=1%,lte":         "only the first item may be a profile",
		"delay=":              "want a profile",
		"delay={}":            "want a profile",
		"left.delay=1ms":      "unknown key",
		"up":                  "up has keys of its own",
		"up.delay":            "up.delay has no value",
		"loss":                "loss has no value",
		"lan,lte":             "only the first item may be a profile",
		"delay=-5ms":          "want 0s to 10s, found -5ms",
		"loss=-1%":            "want a number from 0",
		"mtu=-1":              "want 576 to 9000",
		"jitter=1ms":          "want 0s to the delay",
	} {
		if _, err := ParseLink(line); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want something of %q", line, err, says)
		}
	}
}

func FuzzParseLink(f *testing.F) {
	for _, line := range append(ProfileNames(), "delay=5ms,loss=1%,burst-loss=1%/5,rate=2Mbit/s,up.rate=1Mbit/s,queue=64KiB,down.jitter=1ms") {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		n, err := ParseLink(line)
		if err != nil || !n.HasLink() {
			return
		}
		if again, err := ParseLink(n.String()); err != nil || again != n {
			t.Errorf("%q is written as %q, and read as %+v, %v", line, n, again, err)
		}
	})
}

func TestProfilesHaveASource(t *testing.T) {
	all := Profiles()
	if len(all) < 6 {
		t.Fatalf("%d profiles", len(all))
	}
	for _, p := range all {
		if p.Source == "" || !p.HasLink() {
			t.Errorf("%s: %+v", p.Name, p)
		}
	}
}
