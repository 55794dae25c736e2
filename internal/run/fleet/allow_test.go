package fleet

import (
	"encoding/json"
	"math"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/service"
)

func definition(t testing.TB, d service.Definition) string {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAllowance(t *testing.T) {
	allowed := agentPermissions{ranges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}, listen: netip.MustParseAddr("10.0.0.6")}
	client := func(stack, address string) worker.Spec {
		return worker.Spec{Contract: worker.Contract, Role: worker.ClientRole, Stack: stack, Address: address, Client: &worker.ClientSpec{Clients: 1}}
	}
	server := func(stack, address string) worker.Spec {
		return worker.Spec{Contract: worker.Contract, Role: worker.ServerRole, Stack: stack, Address: address}
	}
	sized := func(clients int, duration int64) worker.Spec {
		s := client("tcp", "10.0.0.1:1")
		s.Client = &worker.ClientSpec{Clients: clients, Load: worker.Load{DurationNS: duration}}
		return s
	}
	own := func(d service.Definition) worker.Spec {
		d.Wire, d.Requests = service.HTTP1, []service.Request{{Method: "GET", Path: "/"}}
		s := client("service:wire=h1", "10.0.0.1:1")
		s.Workload.Definition = definition(t, d)
		return s
	}
	visit := func(stack, address string, limit int64) worker.Spec {
		s := own(service.Definition{Network: "tcp", Address: address})
		s.Role, s.Stack, s.Client, s.Visit = worker.VisitRole, stack, nil, &worker.VisitSpec{LimitNS: limit}
		return s
	}
	several := func(addresses ...string) worker.Spec {
		return own(service.Definition{Network: "tcp", Address: addresses[0], Addresses: &service.Addresses{Policy: service.AllAddresses, All: addresses}})
	}
	looking := service.Definition{Network: "tcp", Address: "10.0.0.1:80", Addresses: &service.Addresses{
		Policy: service.AllAddresses, All: []string{"10.0.0.1:80"}, LookUp: &service.LookUp{Names: []string{"shop.test:80"}, Every: time.Second},
	}}
	probed := func(probe string, profiled bool) worker.Spec {
		s := server("tcp", "10.0.0.6:0")
		s.Probe, s.ProfileCPU = probe, profiled
		return s
	}
	allowed.probes = []string{"syscalls"}
	for name, c := range map[string]struct {
		spec worker.Spec
		want string // empty: allowed
	}{
		"an allowed probe":         {probed("syscalls", false), ""},
		"another probe":            {probed("cpu", false), `the probe "cpu", which this agent does not allow: start the agent with --allow-probes`},
		"no such probe":            {probed("x", false), `the probe "x", which this agent does not allow`},
		"a profile":                {probed("", true), "asks for a CPU profile without the probe cpu"},
		"a profile and a probe":    {probed("syscalls", true), "asks for a CPU profile without the probe cpu"},
		"a client":                 {client("grpc", "10.1.2.3:50051"), ""},
		"over IPv6":                {client("tcp", "[::1]:80"), ""},
		"mapped":                   {client("tcp", "[::ffff:10.0.0.1]:80"), ""},
		"a server":                 {server("h1:tls=on", "10.0.0.6:0"), ""},
		"outside":                  {client("grpc", "8.8.8.8:53"), "dials 10.0.0.0/8"},
		"mapped outside":           {client("grpc", "[::ffff:8.8.8.8]:53"), "dials 10.0.0.0/8"},
		"any":                      {client("grpc", "0.0.0.0:22"), "dials 10.0.0.0/8"},
		"a name":                   {client("grpc", "localhost:22"), "without a host name"},
		"nothing":                  {client("grpc", ""), "without a host name"},
		"a server elsewhere":       {server("grpc", "0.0.0.0:0"), "servers listen on 10.0.0.6"},
		"a server by name":         {server("grpc", "x:0"), "IP:PORT"},
		"an unknown stack":         {client("sh", "10.0.0.1:1"), "sh"},
		"a program of others":      {client("grpc:caller=ghz", "10.0.0.1:1"), "other projects' programs"},
		"a server of others":       {server("file:server=caddy", "10.0.0.6:0"), "other projects' programs"},
		"a sentinel":               {worker.Spec{Contract: worker.Contract, Role: worker.SentinelRole, Stack: "tcp"}, "want server, client or visit"},
		"another contract":         {worker.Spec{Contract: 99, Role: worker.ServerRole, Stack: "tcp"}, "version 99"},
		"a client without its own": {worker.Spec{Contract: worker.Contract, Role: worker.ClientRole, Stack: "tcp", Address: "10.0.0.1:1"}, "lacks the part client"},
		"a crowd":                  {sized(1e9, 0), "at most 100000"},
		"a load of years":          {sized(1, math.MaxInt64), "at most 24h0m0s"},
		"a service":                {own(service.Definition{Network: "tcp", Address: "10.0.0.1:80"}), ""},
		"a service outside":        {own(service.Definition{Network: "tcp", Address: "169.254.169.254:80"}), "dials 10.0.0.0/8"},
		"several addresses":        {several("10.0.0.1:80", "10.0.0.2:80"), ""},
		"one of several outside":   {several("10.0.0.1:80", "8.8.8.8:80"), "dials 10.0.0.0/8"},
		"gRPC steps outside":       {own(service.Definition{Network: "tcp", Address: "10.0.0.1:80", Journey: &service.Journey{GRPC: &service.Definition{Network: "tcp", Address: "8.8.8.8:53"}}}), "dials 10.0.0.0/8"},
		"repeated look-ups":        {own(looking), "leave out --lookup-every"},
		"a visit":                  {visit("service:wire=h1", "10.0.0.1:80", 0), ""},
		"a visit outside":          {visit("service:wire=h1", "8.8.8.8:80", 0), "dials 10.0.0.0/8"},
		"a visit of another stack": {visit("tcp", "8.8.8.8:80", 0), "dials 10.0.0.0/8"},
		"a visit of years":         {visit("service:wire=h1", "10.0.0.1:80", math.MaxInt64), "time limit of at most 24h0m0s"},
		"a visit without its own":  {worker.Spec{Contract: worker.Contract, Role: worker.VisitRole, Stack: "tcp"}, "want the part visit"},
		"a socket file":            {own(service.Definition{Network: "unix", Address: "/run/docker.sock"}), "over IP only"},
	} {
		err := allowed.checkSpec(&c.spec)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: refused: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if err := allowed.checkSpec(nil); err == nil {
		t.Error("no spec is allowed")
	}
}

func TestProgramsAreKnownByTheirHash(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	hash, err := FileHash(own)
	if err != nil {
		t.Fatal(err)
	}
	allowed := agentPermissions{programs: map[string]Program{hash: {Name: "wirelab", Command: []string{own}}}}
	if p, err := allowed.allowedProgram(hash); err != nil || p.Command[0] != own {
		t.Errorf("its own program: %v, %v", p, err)
	}
	shell, err := FileHash("/bin/sh")
	if err != nil {
		t.Skipf("there is no /bin/sh: %v", err)
	}
	for _, other := range []string{shell, "/bin/sh", own, "", strings.ToUpper(hash)} {
		if p, err := allowed.allowedProgram(other); err == nil {
			t.Errorf("%q is allowed, as %v", other, p)
		}
	}
}

// An agent tells a worker only what it allows: no load lasts for ever, by a step of a search either.
func TestControlsThatAnAgentRefuses(t *testing.T) {
	step := func(window, warmUp time.Duration) *worker.ControlOrder {
		return &worker.ControlOrder{Control: worker.StepControl, Step: &load.Step{DurationNS: int64(window), WarmUpAtMostNS: int64(warmUp)}}
	}
	for says, order := range map[string]*worker.ControlOrder{
		"lacks a control":    nil,
		"a step of 25 hours": step(time.Hour, 24*time.Hour),
		"a step of 5.12e+06": step(math.MaxInt64, math.MaxInt64),
	} {
		if err := checkControl(order); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want an error that says %q", order, err, says)
		}
	}
	for _, order := range []*worker.ControlOrder{{Control: worker.EndControl}, step(0, 0), step(time.Minute, time.Second)} {
		if err := checkControl(order); err != nil {
			t.Errorf("%+v: %v", order, err)
		}
	}
}
