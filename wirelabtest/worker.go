package wirelabtest

import (
	"flag"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"wirelab.dev/internal/run/worker/body"
	"wirelab.dev/internal/wire/stack/catalog"
	workloads "wirelab.dev/internal/wire/workload/catalog"
	"wirelab.dev/internal/wire/workload/own"
)

// The flags of a worker.
const (
	workerFlag    = "wirelabtest.worker"
	temporaryFlag = "wirelabtest.temporary"
)

var (
	// workerFor is the test whose service this process serves or calls; empty unless it is a worker.
	workerFor = flag.String(workerFlag, "", "only Compare sets it, for the processes that it starts: the `test` whose service they serve or call")
	_         = flag.String(temporaryFlag, "", "the `folder` for a worker's temporary files, which Compare removes")
	// workerOutput is the worker's output. It is nil in a process that is no worker.
	workerOutput = prepareWorker(os.Args)
)

// prepareWorker prepares a worker's process before any test's code runs. Tests may print: so standard
// output is kept for the worker's events, and the tests' output goes to standard error, whose end is
// in errors. Temporary files go to a folder that the parent removes.
func prepareWorker(arguments []string) (output io.Writer) {
	for _, argument := range arguments[1:] {
		name, value, _ := strings.Cut(strings.TrimPrefix(argument, "-"), "=")
		switch name {
		case temporaryFlag:
			_ = os.Setenv("TMPDIR", value) // fails only for impossible texts
		case workerFlag:
			output, os.Stdout = os.Stdout, os.Stderr
		}
	}
	return output
}

func isWorker() bool { return workerOutput != nil }

// work serves or calls the service until the parent ends the worker. It then ends the test, so that its
// cleanups run as usual. A subtest's worker ends at once, because the code after the subtest would
// find no result. It does nothing in another test than the worker's: a subtest's worker runs its
// parents, too.
func work(t testing.TB, s own.Service) {
	if *workerFor != t.Name() {
		return
	}
	if err := programOf(s).Main(t.Context(), os.Stdin, workerOutput); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(t.Name(), "/") {
		os.Exit(0) //nolint:forbidigo // see above
	}
	t.SkipNow()
}

// programOf returns wirelab's stacks and workloads, with the service as the workload own.
func programOf(s own.Service) body.Program {
	p := body.Program{Stacks: catalog.Stacks(), Workloads: workloads.Workloads()}
	for i, w := range p.Workloads {
		if w.Info().Name == own.Name {
			p.Workloads[i] = own.New(s)
		}
	}
	return p
}

// A testName names a test, a subtest or a benchmark.
type testName struct {
	name        string
	isBenchmark bool
}

// flags returns the flags that select the test; prefix is before their names.
func (t testName) flags(prefix string) []string {
	parts := strings.Split(t.name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	chosen := strings.Join(parts, "/")
	if t.isBenchmark {
		return []string{"-" + prefix + "run=^$", "-" + prefix + "bench=" + chosen}
	}
	return []string{"-" + prefix + "run=" + chosen}
}

// command returns the command that measures again.
func (t testName) command() []string {
	return append([]string{"go", "test", "-count=1"}, t.flags("")...)
}

// workerCommand returns the command of a worker: this program, with the flags of the user's own, so
// that it reaches the same Compare.
func (t testName) workerCommand(temporary string) ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := append([]string{program}, t.flags("test.")...)
	if testing.Short() {
		command = append(command, "-test.short")
	}
	flag.Visit(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") {
			command = append(command, "-"+f.Name+"="+f.Value.String())
		}
	})
	command = append(command, "-"+temporaryFlag+"="+temporary, "-"+workerFlag+"="+t.name)
	return append(command, flag.Args()...), nil
}
