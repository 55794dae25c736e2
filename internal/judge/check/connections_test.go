package check

import (
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/data/record"
)

// wantCheckSays wants the check at that level, with those words, whatever the
// others say.
func wantCheckSays(t *testing.T, name string, r *record.Record, check string, level record.Level, says string) {
	t.Helper()
	checks := Judge(r, DefaultLimits())
	i := slices.IndexFunc(checks, func(c record.Check) bool { return c.Name == check })
	if i < 0 {
		t.Fatalf("there is no check %q", check)
	}
	if c := checks[i]; c.Level != level || !strings.Contains(c.Detail, says) {
		t.Errorf("%s: %s is %s: %s\nwant %s: …%s…", name, c.Name, c.Level, c.Detail, level, says)
	}
}

func TestConnectionsMustBeginAsAsked(t *testing.T) {
	const requests = 40_000
	for _, c := range []struct {
		name  string
		mode  string
		made  record.Connections
		level record.Level
		says  string
	}{
		{"cleartext", "new", record.Connections{During: requests}, record.OK, "40000 connections for 40000 answers"},
		{"full handshakes", "new", record.Connections{During: requests, Full: requests}, record.OK, "0 of them resumed"},
		{"an edge", "new", record.Connections{During: requests - 700, Full: requests}, record.OK, ""},
		{"shared", "new", record.Connections{During: 4}, record.Invalid, "requests shared a connection"},
		{"too many", "new", record.Connections{During: 2 * requests, Full: 2 * requests}, record.Warning, "more connections than it sent requests"},
		{"resumed unasked", "new", record.Connections{During: requests, Full: requests / 2, Resumed: requests / 2}, record.Invalid, "20000 of them resumed"},
		{"few resumed unasked", "new", record.Connections{During: requests, Full: requests - 4, Resumed: 4}, record.Warning, "4 of them resumed"},
		{"resumed", "resumed", record.Connections{During: requests, Resumed: requests}, record.OK, "0 of them full"},
		{"not resumed", "resumed", record.Connections{During: requests, Full: requests}, record.Invalid, "40000 of them full"},
		{"nothing to resume", "resumed", record.Connections{During: requests}, record.Invalid, "no TLS session"},
		{"a pool that sizes itself", "auto:16", record.Connections{Opened: 5, During: 2}, record.OK, "5 were opened"},
		{"one that could not connect", "auto:16", record.Connections{Failed: 1}, record.Invalid, "1 attempts failed"},
		{"early", "0rtt", record.Connections{During: requests, Resumed: requests, Early: requests}, record.OK, "0 of them without accepted early data"},
		{"early data refused", "0rtt", record.Connections{During: requests, Resumed: requests, Early: requests - 500, EarlyRefused: 500}, record.Invalid, "500 of them without accepted early data"},
	} {
		r := sound(t)
		c.made.Mode, c.made.Want = c.mode, r.Cell.Clients
		r.Connections = c.made
		wantOnly(t, c.name, r, "connections", c.level, c.says)
	}
}

// Failed requests open no connection, and are no reason to say that some were
// shared.
func TestFailedRequestsNeedNoConnection(t *testing.T) {
	r := sound(t)
	r.Connections = record.Connections{Mode: "new", During: 10_000, Failed: 30_000}
	meets(r, failure.PortExhaustion, 30_000)
	wantCheckSays(t, "new", r, "connections", record.OK, "10000 connections for 10000 answers")
}

// The collapse of a naive client is what it is there to show.
func TestFailuresOfANaiveClientAreItsResult(t *testing.T) {
	r := sound(t)
	r.Cell.Variant = "tcp:client=naive"
	meets(r, failure.PortExhaustion, 30_000)
	busy(r, 0.99, 0.1) // with calls that fail at once
	r.Checks = Judge(r, DefaultLimits())
	if !r.Valid() {
		t.Errorf("invalid: %+v", r.Checks)
	}
	wantCheckSays(t, "naive", r, "generator-bound", record.Warning, "the client's limit, not the server's")
	wantCheckSays(t, "naive", r, "limits", record.Warning, "port-exhaustion: no more; a naive client")
	wantCheckSays(t, "naive", r, "errors", record.Warning, "30000 of 40000")

	// What fails otherwise is none of that.
	r.Errors = append(r.Errors, record.ErrorCount{Class: "reset", Code: "Unavailable", Count: 401})
	wantCheckSays(t, "naive and reset", r, "errors", record.Invalid, "30401 of 40000")

	r.Cell.Variant = "tcp:client=sized"
	wantCheckSays(t, "sized", r, "limits", record.Invalid, "not of the protocol")
}
