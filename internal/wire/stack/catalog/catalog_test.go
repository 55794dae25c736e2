package catalog

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
)

func variant(t *testing.T, text string) scenario.Variant {
	t.Helper()
	v, err := scenario.ParseVariant(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestGoodVariants(t *testing.T) {
	for _, text := range []string{
		"tcp", "rest", "grpc", "fake",
		"tcp:buffers=pooled", "tcp:buffers=fresh,inflight=50", "rest:inflight=1", "grpc:conns=4,inflight=50", "grpc:pool=auto", "grpc:codec=vt2,messages=pooled",
		"h1:codec=json", "h2:tls=on,cert=rsa,conn=resumed", "fake:delay=5ms,fail-every=10",
		"grpc:caller=h2load,conn=pool:2", "grpc:caller=ghz", "fastgrpc:caller=h2load",
		"grpc:caller=load,conn=pool:2", "fastgrpc:caller=load", "h1:caller=wrk", "h1:caller=h2load", "h1:caller=load,codec=json", "h2:caller=h2load", "h2:caller=load,conn=new", "h2:server=rust,caller=h2load",
	} {
		if err := Check(variant(t, text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestBadVariantsAreExplained(t *testing.T) {
	for text, says := range map[string]string{
		"gprc":                               "did you mean grpc?",
		"htpp":                               "want one of tcp, rest, grpc, h1",
		"tcp:bufers=pooled":                  "did you mean buffers?",
		"tcp:buffers=poled":                  "did you mean pooled?",
		"tcp:buffers=yes":                    "want one of fresh, pooled",
		"grpc:cnns=4":                        "did you mean conns?",
		"grpc:conns=four":                    "whole number",
		"grpc:pool=auto,conns=4":             "leave out conns and caller, or pool",
		"grpc:pool=auto,caller=ghz":          "leave out conns and caller, or pool",
		"tcp:conn=auto:4":                    "is only an option of a stack: write it as in grpc:pool=auto",
		"rest:window=1":                      "want one of inflight, conn",
		"rest:inflight=0":                    "whole number",
		"fake:stall=2s":                      "must be shorter than every",
		"grpc:buffers=pooled":                "buffers=pooled",
		"h1:codec=xml":                       "want one of protobuf, json",
		"h2:conn=resumed":                    "set tls=on",
		"h2:tls=on,conn=0rtt":                "h3 and grpc-h3 have 0rtt",
		"grpc:caller=ghz,tls=on":             "this caller does not support TLS",
		"fastgrpc:caller=ghz,tls=on":         "this caller does not support TLS",
		"fastgrpc:caller=h2load,ends=client": "use grpc:caller=h2load",
		"fastgrpc:caller=load,ends=client":   "use grpc:caller=load",
		"h1:caller=load,tls=on":              "this caller does not support TLS",
		"h2:caller=wrk":                      "wrk",
		"h3:caller=load":                     "caller",
		"grpc:pool=auto,caller=load":         "leave out conns and caller, or pool",
		"fake:fail-evry=2,delay=ms":          "did you mean fail-every?",
	} {
		err := Check(variant(t, text))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that says %q", text, err, says)
		}
	}
}

func TestLoadsOfOtherProgramsAreChecked(t *testing.T) {
	closed := func(change func(*scenario.Part)) scenario.Part {
		p := scenario.Part{Clients: []int{4}, Load: scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(time.Second)}}
		if change != nil {
			change(&p)
		}
		return p
	}
	for _, c := range []struct {
		variant string
		part    scenario.Part
		says    string // "": no error
	}{
		{"grpc", closed(func(p *scenario.Part) { p.Load = scenario.Load{Model: scenario.Open, Rate: 1} }), ""},
		{"grpc:caller=h2load", closed(nil), ""},
		{"grpc:caller=ghz,conn=pool:2", closed(nil), ""},
		{"grpc:caller=ghz", closed(func(p *scenario.Part) { p.Load.Model = scenario.Open }), "set `model: closed`"},
		{"grpc:caller=ghz", closed(func(p *scenario.Part) { p.Load = scenario.Load{Model: scenario.Closed, Requests: 10} }), "set `duration`"},
		{"grpc:caller=ghz,inflight=3", closed(nil), "leave out inflight=3"},
		{"grpc:caller=ghz", closed(func(p *scenario.Part) { p.Profile = scenario.Allocations }), "leave out `profile` and `probes`"},
		{"grpc:caller=ghz,conn=pool:3", closed(nil), "use a number of clients, not 4, that is a multiple of the 3 connections"},
		{"h1:caller=wrk", closed(nil), ""},
		{"h1:caller=h2load,conn=pool:2", closed(nil), "as many connections as clients (4), not 2"},
		{"h2:caller=h2load,conn=pool:2", closed(nil), ""},
		{"h1:caller=load,conn=pool:2,inflight=3", closed(func(p *scenario.Part) { p.Load = scenario.Load{Model: scenario.Open, Rate: 1} }), ""},
	} {
		err := CheckLoad(variant(t, c.variant), c.part)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want an error that says %q", c.variant, err, c.says)
		}
	}
	for _, text := range []string{"grpc:caller=ghz", "fastgrpc:caller=load", "h1:caller=load", "h2:caller=h2load"} {
		v := variant(t, text)
		s, err := Find(v.Stack)
		if err != nil {
			t.Fatal(err)
		}
		if err := stack.CheckKind(s, v, stack.ServerStream); !errors.Is(err, stack.ErrUnsupported) {
			t.Errorf("%s and streams: %v", text, err)
		}
	}
}

func TestACongestionControlIsForWirelabsOwnTCPSockets(t *testing.T) {
	for text, says := range map[string]string{
		"h3:cc=reno":               "QUIC's library offers no choice",
		"grpc-h3:cc=bbr":           "always uses reno",
		"grpc:caller=ghz,cc=cubic": "ghz opens its own sockets",
		"tcp:cc=Reno!":             "want the kernel's name",
	} {
		if err := Check(variant(t, text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want something of %q", text, err, says)
		}
	}
	v := variant(t, "grpc:cc=dctcp")
	if err := Check(v); err != nil || Congestion(v) != "dctcp" || OwnOptions(v).String() != "grpc" {
		t.Errorf("%s: %v; it asks for %q, and its adapter gets %s", v, err, Congestion(v), OwnOptions(v))
	}
}

func TestOwnOptions(t *testing.T) {
	v := variant(t, "tcp:buffers=pooled,inflight=50")
	if own := OwnOptions(v).String(); own != "tcp:buffers=pooled" {
		t.Errorf("the adapter gets %s", own)
	}
	if limit, err := InFlight(v); limit != 50 || err != nil {
		t.Errorf("the limit is %d, %v", limit, err)
	}
	if v.String() != "tcp:buffers=pooled,inflight=50" {
		t.Errorf("the variant became %s", v)
	}
}

// Only stacks that open TCP sockets in wirelab itself have Nagle's algorithm.
func TestNagleNeedsAStacksOwnTCP(t *testing.T) {
	for text, why := range map[string]string{
		"tcp:nagle=on": "", "grpc:nagle=on": "", "h3:nagle=on": "nagle=on: QUIC has no such algorithm", "drpc:nagle=on": "nagle=on: a peer opens its sockets",
	} {
		v, err := scenario.ParseVariant(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(v); (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%s: found %v, want %q", text, err, why)
		}
		if !Socket(v).Nagle {
			t.Errorf("%s: the sockets' options are %+v", text, Socket(v))
		}
	}
}

// TestStacksDescribeThemselves keeps what `wirelab list` prints and variants
// are checked by in order.
func TestStacksDescribeThemselves(t *testing.T) {
	var names []string
	for _, s := range Stacks() {
		names = append(names, s.Info().Name)
		if found, err := Find(s.Info().Name); err != nil || found != s {
			t.Errorf("Find(%q) = %v, %v", s.Info().Name, found, err)
		}
		if s.Info().Summary == "" || strings.Contains(s.Info().Summary, "\n") {
			t.Errorf("%s describes itself as %q", s.Info().Name, s.Info().Summary)
		}
		if c, err := scenario.ParseConnection(s.Info().Connection.String()); err != nil || c != s.Info().Connection {
			t.Errorf("%s: its default connection is %q: %v", s.Info().Name, s.Info().Connection, err)
		}
		var keys []string
		for _, o := range slices.Concat(Options(s), Common()) {
			keys = append(keys, o.Key)
			if _, carried := s.(stack.PeerCarried); o.Key != nagleKey || !carried && !s.Info().QUIC { // TestNagleNeedsAStacksOwnTCP has these
				checkOption(t, s, o)
			}
		}
		if slices.Sort(keys); len(slices.Compact(keys)) != len(keys) {
			t.Errorf("%s: an option is there twice: %v", s.Info().Name, keys)
		}
	}
	if slices.Sort(names); len(slices.Compact(names)) != len(names) {
		t.Errorf("a stack is there twice: %v", names)
	}
}

func checkOption(t *testing.T, s stack.Stack, o scenario.Option) {
	t.Helper()
	if o.Help == "" || strings.Contains(o.Help, "\n") {
		t.Errorf("%s: %s is explained as %q", s.Info().Name, o.Key, o.Help)
	}
	if len(o.Values) > 0 && !slices.Contains(o.Values, o.Default) {
		t.Errorf("%s: %s is %q by default, and takes %v", s.Info().Name, o.Key, o.Default, o.Values)
	}
	for _, value := range o.Values {
		v := scenario.Variant{Stack: s.Info().Name, Options: []scenario.Setting{{Key: o.Key, Value: value}}}
		if name := peerWithOption(v.Stack, o.Key); name != "" {
			v.Options = append(v.Options, scenario.Setting{Key: bothEndsKey, Value: name})
		}
		if again, err := scenario.ParseVariant(v.String()); err != nil || again.String() != v.String() {
			t.Errorf("%s cannot be written: %v", v, err)
		}
		if _, carried := Carrier(v); carried && o.Key == smallLimitKey {
			continue // every stack lists it, and a peer cannot be rebuilt
		}
		if err := Check(v); err != nil && Check(Secure(v)) != nil { // some are TLS's alone
			t.Errorf("%s is offered and refused: %v", v, err)
		}
	}
}
