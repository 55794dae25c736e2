package wirelabtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/wire/stack/catalog"
	"wirelab.dev/internal/wire/workload/own"
	"wirelab.dev/internal/wire/workload/ping/pingpb"
)

func configured(options ...Option) (*measurement, error) {
	m := &measurement{testName: testName{name: "TestShop/many_articles"}}
	return m, m.configure(options)
}

func TestMistakesInOptionsAreExplained(t *testing.T) {
	for _, wrong := range []struct {
		options []Option
		says    string
	}{
		{[]Option{Stacks("fastgprc")}, `Stacks("fastgprc"): stack "fastgprc": did you mean fastgrpc?`},
		{[]Option{Stacks("grpc:cons=4")}, `grpc has no option "cons"; did you mean conns?`},
		{[]Option{Stacks()}, `Stacks: found no stack: name some, as in Stacks("grpc", "fastgrpc")`},
		{[]Option{Stacks("drpc")}, `Stacks("drpc"): variant drpc: another program is one of its ends, and your service is not in that program: leave the variant out`},
		{[]Option{Stacks("grpc", "grpc")}, "grpc"},
		{[]Option{Callers(0)}, "Callers(0): want 1 or more"},
		{[]Option{Budget(time.Millisecond)}, "Budget(1ms): want 1s or more"},
		{[]Option{Repeats(0)}, "Repeats(0): want 1 or more"},
		{[]Option{Window(time.Microsecond)}, "Window(1µs): want 1ms or more"},
		{[]Option{Budget(time.Second), Repeats(3)}, "Budget and Repeats both limit the comparison: leave out one of the two"},
		{[]Option{Budget(time.Second), Stacks("grpc")}, "Budget repeats until a comparison is decided, but there is one stack: name another one, or use Repeats"},
		{[]Option{FailIf("p99 > 20")}, "FailIf: unknown limit"},
		{[]Option{FailIf("kept < 3")}, "only a load with --goal has the figure kept"},
		{[]Option{FailIf("p99 > +10%")}, "is about a change: name the earlier run with Baseline; for the figure itself write its unit, as in p99>20ms"},
		{[]Option{FailIf("p99 > +10%"), Baseline("x"), Repeats(2)}, "a change needs 3 windows in each run"},
		{[]Option{UndecidedPasses()}, "UndecidedPasses has no effect without FailIf: add a condition, or leave it out"},
	} {
		if _, err := configured(wrong.options...); err == nil || !strings.Contains(err.Error(), wrong.says) {
			t.Errorf("found %v, want an error that says %q", err, wrong.says)
		}
	}
}

func TestABaselineMustBeARun(t *testing.T) {
	m, err := configured(Baseline(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.measure(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "Baseline(") {
		t.Errorf("found %v", err)
	}
}

func TestOptionsBecomeAScenario(t *testing.T) {
	m, err := configured(Stacks("grpc,fastgrpc:conn=pool:2", "tcp"), Callers(5), Budget(7*time.Second), Window(time.Second), Seed(9), FailIf("p99>20ms", "errors>0"))
	if err != nil {
		t.Fatal(err)
	}
	p := m.scenario.Parts[0]
	if names := variantNames(p.Stacks); !slices.Equal(names, []string{"grpc", "fastgrpc:conn=pool:2", "tcp"}) || p.Clients[0] != 5 || p.Stretch ||
		time.Duration(p.Load.Duration) != time.Second || m.scenario.Seed != 9 || m.scenario.Name != "testshop-many-articles" {
		t.Errorf("measures %+v", m.scenario)
	}
	if time.Duration(m.until.TimeNS) != 7*time.Second || len(m.conditions) != 2 {
		t.Errorf("until %+v, conditions %v", m.until, m.conditions)
	}
	if m, err = configured(Repeats(2)); err != nil || m.until != nil || m.scenario.Parts[0].Repeats != 2 || !m.scenario.Parts[0].Stretch {
		t.Errorf("with two repeats: %+v, %v", m.scenario, err)
	}
}

func TestAWorkerRunsTheSameTest(t *testing.T) {
	m := testName{name: "TestShop/a+b_(c)#01"}
	command, err := m.workerCommand("folder")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`-test.run=^TestShop$/^a\+b_\(c\)#01$`, "-wirelabtest.temporary=folder", "-wirelabtest.worker=TestShop/a+b_(c)#01"} {
		if !slices.Contains(command, want) {
			t.Errorf("%q lacks %q", command, want)
		}
	}
	if slices.Contains(command, "-test.short") != testing.Short() {
		t.Errorf("%q, but short is %v", command, testing.Short())
	}
	m = testName{"BenchmarkShop", true}
	if command, err = m.workerCommand("folder"); err != nil || !slices.Contains(command, "-test.bench=^BenchmarkShop$") || !slices.Contains(command, "-test.run=^$") {
		t.Errorf("%q, %v", command, err)
	}
}

var database = flag.String("database", "", "a flag of the user's own")

func TestAWorkerGetsTheUsersFlags(t *testing.T) {
	if err := flag.Set("database", "a b"); err != nil {
		t.Fatal(err)
	}
	m := testName{name: "TestShop"}
	if command, err := m.workerCommand("folder"); err != nil || !slices.Contains(command, "-database=a b") || *database != "a b" {
		t.Errorf("%q, %v", command, err)
	}
}

func TestOnlyAWorkerKeepsStandardOutput(t *testing.T) {
	output := os.Stdout
	defer func() { os.Stdout = output }()
	if found := prepareWorker([]string{"shop.test", "-test.run=^TestShop$"}); found != nil || os.Stdout != output {
		t.Errorf("no worker: %v", found)
	}
	if found := prepareWorker([]string{"shop.test", "-wirelabtest.worker=TestShop"}); found != output || os.Stdout != os.Stderr {
		t.Errorf("a worker: %v", found)
	}
}

// A call works over every stack that is not refused.
func TestEveryStackCarriesAService(t *testing.T) {
	var carried []string
	for _, s := range catalog.Stacks() {
		name := s.Info().Name
		m, err := configured(Stacks(name), Repeats(1))
		if err != nil {
			t.Logf("%s is refused: %v", name, err)
			continue
		}
		m.service = own.Service{
			Register: func(r grpc.ServiceRegistrar) {
				pingpb.RegisterPingServiceServer(r, pingpb.UnimplementedPingServiceServer{})
			},
			Call: func(ctx context.Context, conn grpc.ClientConnInterface) error {
				_, err := pingpb.NewPingServiceClient(conn).Ping(ctx, &pingpb.PingRequest{})
				if status.Code(err) != codes.Unimplemented { // the service itself answers so
					return fmt.Errorf("the service did not answer: %w", err)
				}
				return nil
			},
		}
		if err := m.tryCall(t.Context(), m.variants[0]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		carried = append(carried, name)
	}
	for _, want := range []string{"tcp", "rest", "grpc", "h1", "h2", "h3", "connect", "grpc-h3", "fastgrpc", "creditrpc"} {
		if !slices.Contains(carried, want) {
			t.Errorf("%s is refused", want)
		}
	}
}

// limitedTest is a test with a deadline.
type limitedTest struct {
	testing.TB
	deadline time.Time
}

func (l limitedTest) Deadline() (time.Time, bool) { return l.deadline, !l.deadline.IsZero() }

func TestAComparisonEndsBeforeTheTestsDeadline(t *testing.T) {
	ctx, cancel := contextOf(limitedTest{t, time.Now().Add(time.Second)}) // less than is needed to end
	defer cancel()
	if cause := context.Cause(ctx); cause == nil || !strings.Contains(cause.Error(), "give go test a longer -timeout, or a shorter Budget") {
		t.Errorf("the context ends with %v", cause)
	}
	ctx, cancel = contextOf(limitedTest{t, time.Time{}})
	defer cancel()
	if _, limited := ctx.Deadline(); limited || ctx.Err() != nil {
		t.Error("a test without a deadline has one")
	}
}

// loggingTest counts the lines of a test's log.
type loggingTest struct {
	testing.TB
	lines []string
}

func (l *loggingTest) Log(args ...any) { l.lines = append(l.lines, fmt.Sprint(args...)) }

func TestProgressIsLoggedEveryTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &loggingTest{TB: t}
		progress := &progressLog{t: log}
		for i := range 10 { // one line per 700 ms
			fmt.Fprintf(progress, "%d/10\n", i)
			time.Sleep(700 * time.Millisecond)
		}
		if want := []string{"3/10", "6/10", "9/10"}; !slices.Equal(log.lines, want) {
			t.Errorf("logged %q, want %q", log.lines, want)
		}
	})
}

// runOf returns a run of three cells: one that is valid, one that other programs spoiled, and one
// whose calls fail.
func runOf() *report.Run {
	figure := func(value, low, high float64) matrix.Figure {
		return matrix.Figure{Value: value, Interval: &matrix.Interval{Low: low, High: high, Confidence: 0.95}}
	}
	cell := func(variant string) matrix.Cell {
		c := matrix.Cell{Key: "compare/" + variant, Requests: 100, Trials: 3, Throughput: figure(5000, 4900, 5100)}
		c.Variant = variant
		c.Service.Mean, c.Service.P99 = figure(200, 190, 210), figure(1000, 900, 1100)
		return c
	}
	good, spoiled, failing := cell("grpc"), cell("rest"), cell("tcp")
	good.Valid, spoiled.Spoiled, failing.Errors = 3, 3, 7
	spoiled.Findings = []matrix.Finding{{Name: "gaps", Level: record.Invalid, Detail: "other programs had the CPUs"}}
	failing.Findings = []matrix.Finding{{Name: "failures", Level: record.Invalid, Detail: "7 % of the calls failed"}, {Name: "noise", Level: record.Warning, Detail: "some"}}
	s := &analysis.Summary{Cells: []matrix.Cell{good, spoiled, failing}}
	s.Comparisons = []compare.Comparison{{A: "grpc", B: "rest", Metric: "mean", Ratio: figure(0.5, 0.4, 0.625), Verdict: compare.Faster}}
	return &report.Run{Summary: s}
}

func TestAResultHasTheFiguresAndWhatIsRefused(t *testing.T) {
	r := newResult(runOf())
	s, found := r.Stack("grpc")
	if !found || s.Mean != (Time{200 * time.Microsecond, 190 * time.Microsecond, 210 * time.Microsecond}) || s.Throughput != (Number{5000, 4900, 5100}) || s.Refused != nil {
		t.Errorf("grpc: %+v", s)
	}
	if s, _ := r.Stack("rest"); !slices.Equal(s.Refused, []string{"gaps: other programs had the CPUs"}) {
		t.Errorf("rest: %+v", s)
	}
	if _, found := r.Stack("h2"); found {
		t.Error("found a stack that was not measured")
	}
	c, known := r.Between("rest", "grpc", "mean")
	if want := (Comparison{A: "rest", B: "grpc", Figure: "mean", Ratio: Number{2, 1.6, 2.5}, Verdict: Slower}); !known || c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
	if _, known := r.Between("rest", "grpc", "p99"); known {
		t.Error("found a comparison that was not made")
	}
}

// Other programs do not fail a test; the service's own failures do, and gates that are not kept.
func TestOnlyTheServiceFailsATest(t *testing.T) {
	m := measurement{}
	m.conditions = []analysis.Condition{condition(t, "p99 > 500us"), condition(t, "mean > 205us")}
	seen := runOf()
	if err := m.judge(seen); err != nil {
		t.Fatal(err)
	}
	failures := strings.Join(failuresOf(seen), "\n")
	for _, want := range []string{
		"breached: p99 > 500us in compare/grpc: 1.00ms",
		"cannot tell: mean > 205us in compare/grpc: 200µs",
		"cannot tell: p99 > 500us in compare/rest",
		"tcp has no valid repeat: failures: 7 % of the calls failed",
	} {
		if !strings.Contains(failures, want) {
			t.Errorf("the failures lack %q:\n%s", want, failures)
		}
	}
	if strings.Contains(failures, "compare/tcp") {
		t.Errorf("gates repeat the service's own failure:\n%s", failures)
	}
	if strings.Contains(failures, "rest has no valid repeat") || strings.Contains(failures, "some") {
		t.Errorf("a disturbance fails the test:\n%s", failures)
	}
	m.undecidedPass = true
	if err := m.judge(seen); err != nil {
		t.Fatal(err)
	}
	if failures := failuresOf(seen); len(failures) != 2 || !strings.HasPrefix(failures[1], "breached") {
		t.Errorf("with UndecidedPasses: %q", failures)
	}
}

func condition(t *testing.T, text string) analysis.Condition {
	t.Helper()
	c, err := analysis.ParseCondition(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
