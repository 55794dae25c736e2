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
	for line, want := range map[string]Network{
		"network: {ports: 2000, time-wait-reuse: false}": {Ports: 2000},
		"network: {time-wait-reuse: true}":               {TimeWaitReuse: true},
		"network: {delay: 5ms}":                          {Delay: Duration(5 * time.Millisecond)},
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
		"network: {ports: 1}":       "want 2 to 32768",
		"network: {ports: 40000}":   "want 2 to 32768",
		"network: {delay: -1ms}":    "delay",
		"network: {delay: 11s}":     "want 0s to 10s",
		"network: {bandwidth: 1}":   "unknown key",
		"network: {ports: default}": "want a number",
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
		"load: {model: closed, total-requests: 49}":              "fewer than the 50 clients",
		"load: {model: closed, total-requests: 99, requests: 9}": "one of requests",
		"load: {model: open, rate: 9, total-requests: 99}":       "has no total-requests",
		"load: {model: closed, total-requests: -1}":              "want 1 to",
	} {
		if _, err := parseWith(line); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want something of %q", line, err, says)
		}
	}
}
