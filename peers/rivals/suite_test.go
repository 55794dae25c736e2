package main

import (
	"fmt"
	"testing"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest"
)

const (
	noMetadata = "this program does not use the library's metadata"
	noDetails  = "the library sends a code and a text"
	onlyText   = "the library sends a text"
)

var lacks = map[string]map[stacktest.Ability]string{
	"drpc": {
		stacktest.StatusDetails: noDetails, stacktest.RequestMetadata: noMetadata, stacktest.ResponseMetadata: noMetadata,
		stacktest.Deadlines: "drpc's frames have no deadline",
	},
	"ttrpc": {
		stacktest.RequestMetadata: noMetadata, stacktest.ResponseMetadata: noMetadata, stacktest.Cancellation: "ttrpc's frames cannot cancel a call",
	},
	"rpcx": {
		stacktest.StatusCodes: onlyText, stacktest.StatusDetails: onlyText, stacktest.RequestMetadata: noMetadata, stacktest.ResponseMetadata: noMetadata,
		stacktest.Deadlines: "rpcx sends no deadline without its service discovery", stacktest.Cancellation: "rpcx's frames cannot cancel a call",
	},
}

// fails gives the reasons for checks that a library fails.
var fails = map[string]map[string]string{
	"drpc": {
		"unary/oversize-request": limitEnds, "unary/oversize-response": limitEnds,
		"life/shutdown":        lastAnswer,
		"patience/late-answer": "a call right after an abandoned one can fail with the error of that one",
		"peer/sends-garbage":   "drpc's server keeps goroutines of connections that end within a frame",
	},
	"ttrpc": {
		"unary/oversize-request": "the limit is 4 MiB", "unary/oversize-response": "the limit is 4 MiB",
		"life/shutdown":    lastAnswer,
		"stream/early-end": "a client that only sends does not learn that the server has ended the stream",
	},
	"rpcx": {"life/shutdown": lastAnswer, "unary/oversize-request": noLimit, "unary/oversize-response": noLimit},
}

const (
	noLimit    = "the library has no limit for a message"
	lastAnswer = "the library writes an answer after its handler, and does not tell when it has"
	limitEnds  = "a message above the limit ends the connection"
)

func subject(t *testing.T, text string, lifecycle conn.Lifecycle) stacktest.Subject {
	t.Helper()
	v, err := scenario.ParseVariant(text)
	if err != nil {
		t.Fatal(err)
	}
	var of stack.Stack
	for _, s := range stacks() {
		if s.Info().Name == v.Stack {
			of = s
		}
	}
	abilities, own := lacks[text]
	if !own {
		abilities = lacks[v.Stack]
	}
	checks, own := fails[text]
	if !own {
		checks = fails[v.Stack]
	}
	return stacktest.Subject{Stack: of, Variant: v, Lifecycle: lifecycle, Lacks: abilities, Fails: checks, Garbage: map[string][]byte{
		"another protocol": []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"half a frame":     {0, 0},
	}}
}

func TestSuite(t *testing.T) {
	for _, c := range []struct {
		variant   string
		lifecycle conn.Lifecycle
	}{
		{"drpc", conn.Kept},
		{"drpc:pool=on", conn.Kept},
		{"drpc:tls=on", conn.Fresh},
		{"ttrpc", conn.Kept},
		{"ttrpc:tls=on", conn.Fresh},
		{"rpcx", conn.Kept},
		{"rpcx:tls=on", conn.Fresh},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.variant, c.lifecycle), func(t *testing.T) {
			stacktest.Run(t, subject(t, c.variant, c.lifecycle))
		})
	}
}

var _ = stacktest.Skips{
	{Stack: "kitex", Suite: "Run", Reason: "kitex closes a listener's descriptor twice, which harms other servers of the process, and some checks of streams never end; TestKitex makes calls of each kind instead"},
	{Stack: "kitex", Suite: "RunSecurity", Reason: "kitex's server has no TLS"},
	{Stack: "drpc", Suite: "RunSecurity", Reason: "drpc waits without end where one end speaks TLS and the other does not; TestSuite runs over TLS"},
	{Stack: "ttrpc", Suite: "RunSecurity", Reason: "ttrpc's errors do not tell that only one end speaks TLS; TestSuite runs over TLS"},
	{Stack: "rpcx", Suite: "RunSecurity", Reason: "rpcx's errors do not tell that only one end speaks TLS; TestSuite runs over TLS"},
	{Stack: "drpc", Suite: "RunLeaks", Reason: "a call right after an abandoned one can fail with the error of that one"},
	{Stack: "kitex", Suite: "RunLeaks", Reason: "kitex keeps goroutines of its own after the client and the server are closed"},
}

func TestLeaks(t *testing.T) {
	for _, variant := range []string{"ttrpc", "rpcx"} {
		t.Run(variant, func(t *testing.T) { stacktest.RunLeaks(t, subject(t, variant, conn.Kept)) })
	}
}
