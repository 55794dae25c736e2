package mcp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func (s *server) addTools(to *sdk.Server) error {
	err := errors.Join(
		addTool[doctorRequest](s, to, tool{
			name: "doctor", schema: "doctor", title: "What this machine can measure",
			about: "Say what this machine can measure, what it cannot, and why. Takes about 20 seconds, and calls no service.",
		}),
		addTool[runsRequest](s, to, tool{
			name: "runs", schema: "runs", title: "Runs in the folder",
			about: "List the runs in the server's folder, the newest first, with name, status and command. Takes less than a second.",
		}),
		addTool[reportRequest](s, to, tool{
			name: "report", schema: "compare", title: "Figures of a run",
			about: "Read a run: the graded answer, and the figures of all cells with their intervals. Changes nothing. Takes about a second.",
		}),
		addTool[explainRequest](s, to, tool{
			name: "explain", schema: "explain", title: "Where the time goes",
			about: "Say why one cell of a run takes longer than another, or than in an earlier run. The run needs probes: compare and load make them if they are called with probe.",
		}),
		addTool[diffRequest](s, to, tool{
			name: "diff", schema: "diff", title: "What became faster or slower",
			about: "Compare two runs of the same cells: what became faster or slower, if it is proven, and by how much. Takes about a second.",
		}),
	)
	if !s.AllowLoad {
		return err
	}
	return errors.Join(err,
		addTool[compareRequest](s, to, tool{
			name: "compare", schema: "compare", title: "Compare stacks on this machine", measures: true,
			about: "Measure a built-in service over several stacks on this machine, by turns, and say which is faster and by how much. It starts its own servers, on loopback, and uses the CPUs during the budget. The run is kept in the folder.",
		}),
		addTool[loadRequest](s, to, tool{
			name: "load", schema: "compare", title: "Load a service", measures: true,
			about: "Send requests to a service that runs already, and say how fast and how correctly it answers. Only servers on loopback may be loaded" + s.alsoTargets() + ". The run is kept in the folder.",
		}),
	)
}

func (s *server) alsoTargets() string {
	if len(s.Targets) == 0 {
		return ""
	}
	return ", and " + strings.Join(s.Targets, ", ")
}

type doctorRequest struct{}

func (doctorRequest) invocation(*server) (invocation, error) { //nolint:unparam // as those of all requests
	return invocation{arguments: []string{"doctor", "--json"}, limit: 3 * time.Minute}, nil
}

// readingLimit is the longest time of commands that only read runs.
const readingLimit = 2 * time.Minute

type runsRequest struct{}

func (runsRequest) invocation(*server) (invocation, error) { //nolint:unparam // as those of all requests
	return invocation{arguments: []string{"list", "--runs=.", "--json"}, limit: readingLimit}, nil
}

type reportRequest struct {
	Run string `json:"run" jsonschema:"the run's directory, relative to the server's folder"`
}

func (r reportRequest) invocation(s *server) (invocation, error) {
	run, err := s.folder.run(r.Run)
	return invocation{arguments: []string{"export", "--format=json", "--", run}, limit: readingLimit}, err
}

type explainRequest struct {
	Run   string `json:"run" jsonschema:"the run's directory"`
	Later string `json:"later_run,omitempty" jsonschema:"a later run: then the tool says why a cell takes longer there"`
	Cells string `json:"cells,omitempty" jsonschema:"one cell, or two with a comma between, each by a part of its name, as in tcp,grpc; without it the first and the slowest cell"`
}

func (r explainRequest) invocation(s *server) (invocation, error) {
	what := invocation{arguments: []string{"explain", "--json"}, limit: readingLimit}
	if r.Cells != "" {
		what.arguments = append(what.arguments, "--cells="+r.Cells)
	}
	what.arguments = append(what.arguments, "--")
	run, err := s.folder.run(r.Run)
	what.arguments = append(what.arguments, run)
	if r.Later != "" && err == nil {
		run, err = s.folder.run(r.Later)
		what.arguments = append(what.arguments, run)
	}
	return what, err
}

type diffRequest struct {
	Before string   `json:"before" jsonschema:"the earlier run's directory"`
	After  string   `json:"after" jsonschema:"the later run's directory"`
	FailIf []string `json:"fail_if,omitempty" jsonschema:"gates, as in p99>+10% or p99>20ms; the result says for each whether it is kept, breached or cannot be told"`
}

func (r diffRequest) invocation(s *server) (invocation, error) {
	what := invocation{arguments: []string{"diff", "--json"}, limit: readingLimit}
	for _, gate := range r.FailIf {
		what.arguments = append(what.arguments, "--fail-if="+gate)
	}
	before, err := s.folder.run(r.Before)
	if err != nil {
		return what, err
	}
	after, err := s.folder.run(r.After)
	what.arguments = append(what.arguments, "--", before, after)
	return what, err
}

// Bounds of a measurement. They hold whatever a client asks for.
const (
	defaultBudget = 60
	maxBudget     = 600 // seconds
	maxRequests   = 1_000_000
	maxClients    = 1000
	maxBody       = 1 << 20 // bytes

	// A cell needs three trials for an interval, each with a window and two processes that start.
	secondsPerCell = 5
	// fewCells are allowed in any budget.
	fewCells = 4
)

// budget returns the time for a measurement. At its end the command is interrupted, and reports what
// it has measured.
func budget(seconds int) (time.Duration, error) {
	if seconds == 0 {
		seconds = defaultBudget
	}
	if seconds < 1 || seconds > maxBudget {
		return 0, fmt.Errorf("budget_seconds: found %d: want 1 to %d", seconds, maxBudget)
	}
	return time.Duration(seconds) * time.Second, nil
}

// within returns an error if a number is outside 1 to most. Zero stands for a default.
func within(name string, found, most int) error {
	if found < 0 || found > most {
		return fmt.Errorf("%s: found %d: want 1 to %d", name, found, most)
	}
	return nil
}

type compareRequest struct {
	Stacks  []string `json:"stacks,omitempty" jsonschema:"variants to compare, as in tcp or grpc:conns=4 (default: tcp, rest and grpc); an unknown name is answered with the known ones"`
	Sizes   []string `json:"sizes,omitempty" jsonschema:"payloads of request and response, as in 64 or 4KiB (default: 64)"`
	Clients []int    `json:"clients,omitempty" jsonschema:"numbers of concurrent clients (default: 16)"`
	Probe   bool     `json:"probe,omitempty" jsonschema:"also trace calls and CPU time, so that explain can say why"`
	Budget  int      `json:"budget_seconds,omitempty" jsonschema:"time for the measurement, 1 to 600 (default: 60): more time finds smaller differences"`
}

func (r compareRequest) invocation(s *server) (invocation, error) {
	limit, err := budget(r.Budget)
	clients := []string{}
	for _, n := range orDefault(r.Clients, 16) {
		err = errors.Join(err, within("clients", max(n, -1), maxClients))
		clients = append(clients, strconv.Itoa(n))
	}
	stacks := strings.Join(orDefault(r.Stacks, "tcp", "rest", "grpc"), ",")
	sizes := strings.Join(orDefault(r.Sizes, "64"), ",")
	variants, built, unknown := s.Variants(stacks)
	if unknown == nil && built {
		unknown = errors.New("this server builds no programs: leave out server=, client=, peer=, smallobject= and the stacks of other libraries, or measure them with wirelab compare")
	}
	if unknown != nil {
		err = errors.Join(err, fmt.Errorf("stacks: %w", unknown))
	}
	if err == nil {
		err = fits(limit, variants, strings.Count(sizes, ",")+1, len(clients))
	}
	what := invocation{limit: limit, arguments: []string{
		"compare", "--json", "--stack=" + stacks, "--size=" + sizes,
		"--concurrency=" + strings.Join(clients, ","), "--budget=" + (limit * 4 / 5).String(), // the rest is for the start and the report
	}}
	if r.Probe {
		what.arguments = append(what.arguments, "--probe=life,cpu")
	}
	return what, errors.Join(err, s.folder.mayWrite())
}

// fits returns an error if a comparison has more cells than its time allows. Without it, the time would be
// over before each cell had its trials.
func fits(limit time.Duration, stacks, sizes, clients int) error {
	cells, most := stacks*sizes*clients, max(fewCells, int(limit.Seconds())/secondsPerCell)
	if cells <= most {
		return nil
	}
	return fmt.Errorf("found %d cells (%d stacks × %d sizes × %d numbers of clients): want at most %d in %v: ask for fewer, or set budget_seconds to %d per cell (at most %d seconds: %d cells)",
		cells, stacks, sizes, clients, most, limit, secondsPerCell, maxBudget, maxBudget/secondsPerCell)
}

func orDefault[T any](given []T, usual ...T) []T {
	if len(given) == 0 {
		return usual
	}
	return given
}

type loadRequest struct {
	Target   string   `json:"target" jsonschema:"URL of the service, as in http://127.0.0.1:8080/items or grpc://127.0.0.1:50051/shop.v1.Shop/Get (by reflection)"`
	Method   string   `json:"method,omitempty" jsonschema:"HTTP method (default: GET, or POST with a body)"`
	Headers  []string `json:"headers,omitempty" jsonschema:"header fields, as in Accept: text/html"`
	Body     string   `json:"body,omitempty" jsonschema:"body of each request; for gRPC the message as JSON. {{uuid}} and other templates may vary it"`
	Clients  int      `json:"clients,omitempty" jsonschema:"concurrent clients (default: 10)"`
	Requests int      `json:"requests,omitempty" jsonschema:"requests in total, 1 to 1000000 (default: 10000)"`
	Rate     int      `json:"rate,omitempty" jsonschema:"requests per second, on a schedule; without it each client sends its next request after the answer"`
	Expect   []string `json:"expect,omitempty" jsonschema:"conditions of a correct answer, as in status == 201"`
	FailIf   []string `json:"fail_if,omitempty" jsonschema:"gates, as in p99>20ms or errors>0.1%"`
	Probe    bool     `json:"probe,omitempty" jsonschema:"also count system calls and sample CPU time of the service, so that explain can say why"`
	Budget   int      `json:"budget_seconds,omitempty" jsonschema:"longest time of the load, 1 to 600 (default: 60); then it ends, and its figures cover the time until then"`
}

func (r loadRequest) invocation(s *server) (invocation, error) {
	if err := s.mayLoad(r.Target); err != nil {
		return invocation{}, err
	}
	limit, err := budget(r.Budget)
	err = errors.Join(err, within("clients", r.Clients, maxClients), within("requests", r.Requests, maxRequests), within("rate", r.Rate, maxRequests))
	if len(r.Body) > maxBody {
		err = errors.Join(err, fmt.Errorf("body: found %d bytes: want at most %d", len(r.Body), maxBody))
	}
	requests, clients := r.Requests, r.Clients
	if requests == 0 {
		requests = 10_000
	}
	if clients == 0 {
		clients = 10
	}
	what := invocation{limit: limit, input: r.Body, arguments: []string{
		"load", "--json", "--yes-i-may", "--concurrency=" + strconv.Itoa(clients), "--requests=" + strconv.Itoa(requests),
	}}
	add := func(flag string, values ...string) {
		for _, value := range values {
			what.arguments = append(what.arguments, "--"+flag+"="+value)
		}
	}
	if r.Method != "" {
		add("method", r.Method)
	}
	for _, header := range r.Headers {
		if strings.HasPrefix(strings.TrimSpace(header), "@") || !strings.Contains(header, ":") {
			err = errors.Join(err, fmt.Errorf("headers: found %q: want NAME: VALUE", header))
		}
		add("header", header)
	}
	if r.Rate > 0 {
		add("rps", strconv.Itoa(r.Rate))
	}
	if r.Body != "" {
		add("data", "-") // standard input: on the command line, the text could name a file
	}
	if r.Probe {
		add("probe", "syscalls,cpu")
	}
	add("expect", r.Expect...)
	add("fail-if", r.FailIf...)
	what.arguments = append(what.arguments, "--", r.Target)
	return what, errors.Join(err, s.folder.mayWrite())
}

// mayLoad returns an error unless a target is on loopback, or is one that the user allows.
func (s *server) mayLoad(target string) error {
	if !strings.Contains(target, "://") {
		return fmt.Errorf("target: found %q: want a URL with its scheme, as in http://127.0.0.1:8080/", target)
	}
	host, port, err := s.Address(target)
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	host = strings.ToLower(host)
	address, err := netip.ParseAddr(host)
	if host == "localhost" || err == nil && address.Unmap().IsLoopback() {
		return nil
	}
	if slices.ContainsFunc(s.Targets, func(allowed string) bool {
		allowed = strings.ToLower(allowed)
		return allowed == host || allowed == net.JoinHostPort(host, port)
	}) {
		return nil
	}
	return fmt.Errorf("target: %s is not on loopback%s: the person who starts this server can allow it with --allow-target %s", host, s.nor(), net.JoinHostPort(host, port))
}

func (s *server) nor() string {
	if len(s.Targets) == 0 {
		return ""
	}
	return " and not among " + strings.Join(s.Targets, ", ")
}
