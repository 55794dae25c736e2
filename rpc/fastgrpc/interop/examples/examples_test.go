// Package examples runs the examples of grpc-go's own repository with grpc-go and with
// fastgrpc in its place (package swap), and compares what they print. EXAMPLES.md lists
// the changes that each needed.
//
// Every pair of programs runs in a network of its own, since all want the same ports.
package examples

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"

	"wirelab.dev/rpc/fastgrpc/interop/swap"
)

var (
	all    = os.Getenv("JUDGES") != "" // else those that show each kind of call
	update = os.Getenv("UPDATE") != "" // EXAMPLES.md
)

const (
	module = "google.golang.org/grpc/examples"
	table  = "EXAMPLES.md"
)

// example is a folder of the module.
type example struct {
	name           string
	server, client string // folders; "" for those usual
	args           []string
	listens        int // sockets of the server, 1 for 0
	// lasts limits how long to watch a client that does not end by itself. How often it prints
	// a line does not count then.
	lasts  time.Duration
	always bool // without make judges too
	// random matches what the program makes up anew in each run.
	random *regexp.Regexp
	// cannot says why the example cannot run here at all.
	cannot string
	// differs says why fastgrpc's output differs, or why the example does not build with it.
	differs string
}

var examples = []example{
	{name: "helloworld", server: "greeter_server", client: "greeter_client", always: true},
	{name: "route_guide", always: true, random: regexp.MustCompile(`\b(point_count|distance):\d+|Traversing \d+ points`)},
	{name: "features/advancedtls", args: []string{"-credentials_directory", "creds"}},
	{name: "features/authentication"},
	{name: "features/authz"},
	{name: "features/cancellation", random: regexp.MustCompile(`echoing message "closed"`)}, // sent while the call is cancelled
	{name: "features/compression"},
	{name: "features/csm_observability", cannot: "it wants Google's cloud"},
	{name: "features/customloadbalancer", listens: 2, lasts: 5 * time.Second, differs: "it reads its service config through an internal package of grpc-go; a resolver of one's own has ParseServiceConfig"},
	{name: "features/deadline"},
	{name: "features/debugging", lasts: 5 * time.Second, random: regexp.MustCompile(`.*([Gg]reet).*`)}, // a server that is slow by lot
	{name: "features/dualstack", listens: 3, random: regexp.MustCompile(`Greeting.*`)},                 // which server is first
	{name: "features/encryption/ALTS", cannot: "it wants Google's cloud"},
	{name: "features/encryption/TLS"},
	{name: "features/encryption/mTLS"},
	{name: "features/error_details"},
	{name: "features/error_handling"},
	{name: "features/flow_control", differs: "windows are larger: 2 MiB a stream, so more messages fit before a sender waits"},
	{name: "features/gracefulstop"},
	{name: "features/health", lasts: 5 * time.Second},
	{name: "features/interceptor"},
	{name: "features/keepalive", lasts: 5 * time.Second},
	{name: "features/load_balancing", listens: 2},
	{name: "features/metadata", always: true},
	{name: "features/metadata_interceptor"},
	{name: "features/multiplex"},
	{name: "features/name_resolving"},
	{name: "features/observability", cannot: "it wants Google's cloud"},
	{name: "features/opentelemetry", listens: 2, lasts: 5 * time.Second, differs: "its option is one of grpc-go's own, grpc.DialOption"},
	{name: "features/orca", args: []string{"-test=true"}, differs: "its option is one of grpc-go's own, grpc.ServerOption"},
	{name: "features/reflection", client: "none"},
	{name: "features/retry"},
	{name: "features/stats_monitoring", random: regexp.MustCompile(`grpc-go(-fastgrpc)?/[0-9.]+|WireLength:\d+`)},
	{name: "features/unix_abstract"},
	{name: "features/wait_for_ready", server: "none", client: "."},
	{name: "features/xds", cannot: "it wants an xDS control plane"},
}

// outcome is a row of the table.
type outcome struct {
	name   string
	result string
	why    string
}

// The results of an example.
const (
	unchanged = "runs with another import"
	renamed   = "runs with another name"
	otherwise = "differs"
	notHere   = "not tried"
)

func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: building the examples takes a while")
	}
	network, err := link.New(link.Settings{})
	if err != nil {
		t.Skipf("the examples share their ports, and no network can be made for each: %v", err)
	}
	if err := network.Close(); err != nil {
		t.Fatal(err)
	}
	s := &suite{dir: t.TempDir(), changed: map[string][]string{}}
	s.prepare(t)
	outcomes := make([]outcome, len(examples))
	t.Run("each", func(t *testing.T) {
		for i, e := range examples {
			if !all && !e.always {
				continue
			}
			t.Run(e.name, func(t *testing.T) {
				t.Parallel()
				outcomes[i] = s.try(t, e)
			})
		}
	})
	checkTable(t, outcomes)
}

// suite is the module as it is, and with fastgrpc.
type suite struct {
	dir     string
	mu      sync.Mutex // go build uses both CPUs itself
	changed map[string][]string
}

func (s *suite) source(library string) string { return filepath.Join(s.dir, library) }

func (s *suite) prepare(t *testing.T) {
	t.Helper()
	rewriter, err := swap.NewRewriter()
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range []string{"theirs", "ours"} {
		if err := swap.CopyModule(module, s.source(library)); err != nil {
			t.Skipf("the examples cannot be had here: %v", err)
		}
	}
	for _, e := range examples {
		err := filepath.WalkDir(filepath.Join(s.source("ours"), e.name), func(path string, entry os.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			changed, err := rewriter.RewriteFolder(path)
			s.changed[e.name] = append(s.changed[e.name], changed...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// attempts limits how often both are run until they print the same: the output of some
// depends on the order of two goroutines.
const attempts = 3

func (s *suite) try(t *testing.T, e example) outcome {
	if e.cannot != "" {
		return outcome{e.name, notHere, e.cannot}
	}
	theirs, err := s.build(e, "theirs")
	if err != nil {
		t.Fatalf("with grpc-go: %v", err)
	}
	difference := ""
	ours, err := s.build(e, "ours")
	if err != nil {
		difference = err.Error()
	} else {
		for range attempts {
			want := run(t, e, theirs, nil)
			got := run(t, e, ours, want)
			if difference = diff(want, got); difference == "" {
				break
			}
		}
	}
	names := slices.Compact(slices.Sorted(slices.Values(s.changed[e.name])))
	switch {
	case difference != "" && e.differs == "":
		t.Errorf("with fastgrpc it differs:\n%s", difference)
	case difference == "" && e.differs != "":
		t.Errorf("it runs now: take out why it would not (%s)", e.differs)
	case difference != "":
		t.Logf("%s:\n%s", e.differs, difference)
		return outcome{e.name, otherwise, e.differs}
	case len(names) > 0:
		return outcome{e.name, renamed, strings.Join(names, ", ")}
	}
	return outcome{e.name, unchanged, ""}
}

// built are the files of a pair of programs, "" for one that there is not.
type built struct{ dir, server, client string }

func (s *suite) build(e example, library string) (built, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := built{dir: filepath.Join(s.source(library), e.name)}
	var programs []swap.Program
	for _, p := range []struct {
		file          *string
		folder, usual string
	}{{&b.server, e.server, "server"}, {&b.client, e.client, "client"}} {
		folder := p.folder
		if folder == "none" {
			continue
		}
		if folder == "" {
			folder = p.usual
		}
		file := library + "-" + strings.ReplaceAll(e.name, "/", "-") + "-" + p.usual
		*p.file = filepath.Join(s.dir, file)
		programs = append(programs, swap.Program{Package: filepath.Join(module, e.name, folder), File: file})
	}
	failed, err := swap.Build(s.dir, map[string]string{module: s.source(library)}, programs...)
	for _, said := range failed {
		return b, fmt.Errorf("it does not build: %s", said)
	}
	return b, err
}

// An output holds the sorted lines that both programs of an example printed, without the parts
// that differ from run to run.
type output struct{ server, client []string }

// run runs both programs in a network of their own. Where the server's output is known, it
// waits for that.
func run(t *testing.T, e example, b built, want *output) *output {
	t.Helper()
	network, err := link.New(link.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	var server, client *process
	if b.server != "" {
		server = start(ctx, t, network, b.dir, b.server, e.args)
		defer server.stop()
		server.awaitSockets(ctx, t, max(e.listens, 1))
	}
	if b.client != "" {
		client = start(ctx, t, network, b.dir, b.client, e.args)
		defer client.stop()
		if e.lasts > 0 {
			select {
			case <-client.ended:
			case <-time.After(e.lasts):
			}
		} else {
			<-client.ended
		}
	}
	out := &output{}
	if client != nil {
		client.stop()
		out.client = client.said.lines(e)
	}
	if server != nil {
		var wanted []string
		if want != nil {
			wanted = want.server
		}
		server.settle(wanted, e)
		server.stop()
		out.server = server.said.lines(e)
	}
	return out
}

// longest bounds a run of both programs. The slowest takes some ten seconds, and more where
// the machine is busy.
const longest = 5 * time.Minute

// process is a program that runs.
type process struct {
	cmd   *exec.Cmd
	said  said
	ended chan struct{}
}

func start(ctx context.Context, t *testing.T, network *link.Network, dir, path string, args []string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(ctx, path, accepted(path, args)...), ended: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	p.cmd.WaitDelay = time.Second
	err := host.OnDisposableThread(func() error {
		if err := network.EnterServer(); err != nil {
			return err
		}
		return p.cmd.Start()
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the program
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	return p
}

// accepted leaves out flags that a program does not have.
func accepted(path string, args []string) []string {
	if len(args) == 0 {
		return nil
	}
	usage, _ := exec.Command(path, "-help").CombinedOutput() // it ends with 2, or 0
	name, _, _ := strings.Cut(args[0], "=")
	if !bytes.Contains(usage, []byte("  "+name)) {
		return nil
	}
	return args
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// awaitSockets waits until the given number of sockets of the program's network listen.
func (p *process) awaitSockets(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	for {
		if p.listening() >= n {
			return
		}
		select {
		case <-p.ended:
			t.Fatalf("the server ended before it listened: %s", p.said.text())
		case <-ctx.Done():
			t.Fatalf("the server does not listen: %s", p.said.text())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (p *process) listening() int {
	n := 0
	for _, name := range []string{"tcp", "tcp6", "unix"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", p.cmd.Process.Pid, name)) // none: the program has ended
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			// State 0A is LISTEN (tcp_states.h); flag 00010000 is SO_ACCEPTCON (net/unix).
			if len(fields) > 5 && (name != "unix" && fields[3] == "0A" || name == "unix" && fields[3] == "00010000") {
				n++
			}
		}
	}
	return n
}

// settle waits until the program has printed the wanted lines, or prints nothing more.
func (p *process) settle(want []string, e example) {
	const quiet = 1500 * time.Millisecond
	last, since := -1, time.Now()
	for time.Since(since) < quiet {
		if n := len(p.said.text()); n != last {
			last, since = n, time.Now()
		}
		if want != nil && slices.Equal(p.said.lines(e), want) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A said holds what a program printed.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// varying matches text that differs from run to run, with its replacement.
var varying = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(\.\d+)? `), ""},
	{regexp.MustCompile(`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [^ ]+ \d{4}`), "TIME"},
	{regexp.MustCompile(`[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(\.\d+)?`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?[-+Z]\S*( [A-Z]+)?( m=\S+)?)?`), "TIME"},
	{regexp.MustCompile(`(127\.0\.0\.1|\[::1\]):\d{5}`), "LOCAL"},
	{regexp.MustCompile(`desc = .*connection refused"?`), "desc = REFUSED"},
	{regexp.MustCompile(`  +`), " "}, // package proto's text has one or two, as chance has it
	{regexp.MustCompile(`0x[0-9a-f]+`), "POINTER"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|ms|s)\b`), "DURATION"},
}

// lines returns the whole lines that were printed.
func (s *said) lines(e example) []string {
	text := s.text()
	if e.random != nil {
		text = e.random.ReplaceAllString(text, "")
	}
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.with)
	}
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	slices.Sort(lines)
	if e.lasts > 0 {
		return slices.Compact(lines)
	}
	return lines
}

// diff describes the differences between two outputs. It returns "" if there are none.
func diff(want, got *output) string {
	var b strings.Builder
	for _, p := range []struct {
		name      string
		want, got []string
	}{{"server", want.server, got.server}, {"client", want.client, got.client}} {
		missing, more := without(p.want, p.got), without(p.got, p.want)
		for _, line := range missing {
			fmt.Fprintf(&b, "%s, only grpc-go:  %s\n", p.name, line)
		}
		for _, line := range more {
			fmt.Fprintf(&b, "%s, only fastgrpc: %s\n", p.name, line)
		}
	}
	return b.String()
}

// without returns the elements of a sorted list that another one has less often.
func without(lines, other []string) (rest []string) {
	left := map[string]int{}
	for _, line := range other {
		left[line]++
	}
	for _, line := range lines {
		if left[line]--; left[line] < 0 {
			rest = append(rest, line)
		}
	}
	return rest
}

// checkTable holds the outcomes against the table, or writes it.
func checkTable(t *testing.T, outcomes []outcome) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "# grpc-go's examples with fastgrpc\n\nOf each example of grpc-go's repository: what fastgrpc took in grpc-go's place, and\nwhether the programs then print the same. `make judges` runs them all and checks this\ntable; `UPDATE=1 make judges` writes it.\n\n| example | with fastgrpc | |\n| --- | --- | --- |\n")
	counts := map[string]int{}
	for _, o := range outcomes {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", o.name, o.result, o.why)
		counts[o.result]++
	}
	text, err := os.ReadFile(table)
	if !update && err != nil {
		t.Fatal(err)
	}
	whole := !slices.ContainsFunc(outcomes, func(o outcome) bool { return o.name == "" })
	switch {
	case t.Failed():
	case update && whole:
		if err := os.WriteFile(table, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	case whole && string(text) != b.String():
		t.Errorf("%s is not what came out: run UPDATE=1 make judges\n%s", table, b.String())
	case !whole:
		for _, o := range outcomes {
			if row := fmt.Sprintf("| %s | %s | %s |\n", o.name, o.result, o.why); o.name != "" && !strings.Contains(string(text), row) {
				t.Errorf("%s has not the row that came out: run UPDATE=1 make judges\n%s", table, row)
			}
		}
	}
	t.Log(counts)
}
