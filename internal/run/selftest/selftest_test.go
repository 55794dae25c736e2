package selftest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/check"
	"wirelab.dev/internal/run/worker/body"
)

// TestMain makes the test's program a worker and a disturber too.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	var err error
	switch os.Args[1] {
	case "worker":
		err = body.Main(context.Background(), os.Stdin, os.Stdout)
	case "disturb":
		err = RunDisturber(context.Background(), os.Stdin, os.Stdout)
	case "is-killed": // in the middle of a stage
		g := Runner{Actor: []string{os.Args[0], "disturb"}}
		_, err = g.Examine(context.Background(), Situation{twin: func(*Stage) error {
			fmt.Println("staged")
			select {}
		}})
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func newRunner(t *testing.T) *Runner {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Runner{Worker: []string{program, "worker"}, Actor: []string{program, "disturb"}}
}

func TestSituationsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Situations() {
		if seen[s.Name] || !regexp.MustCompile(`^[a-z-]+$`).MatchString(s.Name) {
			t.Errorf("%q: want a name of its own, of lower-case letters and dashes", s.Name)
		}
		seen[s.Name] = true
		if s.lie == nil || s.Lie == "" || s.Twin == "" || len(s.Expect) == 0 {
			t.Errorf("%s lacks its lie, a sentence, or a check that may notice it", s.Name)
		}
		if _, err := s.cell.scenario(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
	if len(seen) < 30 {
		t.Errorf("%d situations, want 30 at least", len(seen))
	}
}

// A check that the judge has no more can notice nothing. A warning of the record has
// several words.
func TestExpectedChecksAreTheJudges(t *testing.T) {
	var names []string
	for _, c := range check.Judge(&record.Record{}, check.DefaultLimits()) {
		names = append(names, c.Name)
	}
	for _, s := range Situations() {
		for _, name := range s.Expect {
			if !slices.Contains(names, name) && !strings.Contains(name, " ") {
				t.Errorf("%s expects %q, which is none of the judge's checks: %v", s.Name, name, names)
			}
		}
	}
}

// counted are lies that are noticed however busy the machine is, with the check that says
// so: it counts, and times nothing.
var counted = map[string]string{
	"half-errors": "errors", "wrong-bytes": "errors", "short-answers": "errors",
	"reset": "connections", "reset-rest": "connections", "no-ports": "limits", "overload-much": "schedule",
}

// Whether the rest is noticed depends on the machine, so this wants only that each is
// staged, or says why not, and comes to a verdict.
func TestEverySituationComesToAVerdict(t *testing.T) {
	if testing.Short() {
		t.Skip("stages situations around real trials; TestAnInterruptedStageLeavesNothing stands for it with -short")
	}
	usual := trialWarmUp
	trialWarmUp = scenario.WarmUp{AtMost: scenario.Duration(50 * time.Millisecond)} // nobody looks at the figures
	defer func() { trialWarmUp = usual }()
	g := newRunner(t)
	examined := 0
	for _, s := range Situations() {
		v, err := g.Examine(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %s %s", s.Name, v.Class, v.NotStaged)
		if v.Class != NotStaged && (v.Told == nil || v.Honest == nil) {
			t.Fatalf("%s: %s without a trial: %+v", s.Name, v.Class, v)
		}
		if check, ok := counted[s.Name]; ok {
			examined++
			wantNoticed(t, v, check)
		}
	}
	if examined != len(counted) {
		t.Errorf("%d of the situations %v are there", examined, counted)
	}
	wantNothingLeft(t)
}

func wantNoticed(t *testing.T, v Verdict, check string) {
	t.Helper()
	switch {
	case v.Class == NotStaged && strings.Contains(v.NotStaged, errNotSupported.Error()):
	case v.Class == NotStaged:
		t.Errorf("%s: not staged: %s", v.Name, v.NotStaged)
	case v.Told.levelOf(check) == record.OK:
		t.Errorf("%s: %s is ok: %+v", v.Name, check, v.Told)
	case v.Honest.levelOf(check) != record.OK && check != "schedule": // a starved machine is behind, too
		t.Errorf("%s: %s is against the twin, too: %+v", v.Name, check, v.Honest)
	}
}

// Ctrl-C in the middle of a trial ends workers and disturbers.
func TestAnInterruptedStageLeavesNothing(t *testing.T) {
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := Situation{
		Name: "interrupted", cell: trialCell{},
		lie: func(s *Stage) error {
			err := putProxyBetween(proxyPlayer{})(s)
			s.whenWindowOpens(func() { cancel(interrupted) })
			return errors.Join(err, runBystander(s))
		},
	}
	s.twin = s.lie
	if _, err := newRunner(t).Examine(ctx, s); !errors.Is(err, interrupted) {
		t.Errorf("got %v, want the cause of the interruption", err)
	}
	wantNothingLeft(t)
}

// A disturber that cannot do its part is a reason not to stage, and not a verdict.
func TestADisturberThatFailsIsNotStaged(t *testing.T) {
	v, err := newRunner(t).Examine(t.Context(), Situation{Name: "broken", twin: replaceServer(&serverPlayer{Variant: "nothing"})})
	if err != nil || v.Class != NotStaged || !strings.Contains(v.NotStaged, `stack "nothing"`) {
		t.Errorf("%+v, %v", v, err)
	}
	wantNothingLeft(t)
}

// A situation that cannot be staged gets no verdict: without root a proxy lacks its priority, and a
// lie that never happened would have passed.
func TestAMiddlemanThatFailsIsNotStaged(t *testing.T) {
	g := newRunner(t)
	g.Actor = []string{"/nonexistent"}
	if _, err := g.Examine(t.Context(), Situation{Name: "nobody"}); !errors.Is(err, errCannotStage) {
		t.Errorf("without disturbers: %v, want %v", err, errCannotStage)
	}
	g = newRunner(t)
	nowhere := putProxyBetween(proxyPlayer{})
	v, err := g.Examine(t.Context(), Situation{Name: "nowhere", lie: nowhere, twin: func(s *Stage) error {
		s.program = []string{"/nonexistent"}
		return nowhere(s)
	}})
	if err != nil || v.Class != NotStaged || !strings.Contains(v.NotStaged, "nonexistent") {
		t.Errorf("%s %q, %v; want it not staged", v.Class, v.NotStaged, err)
	}
	wantNothingLeft(t)
}

// A wirelab that is killed removes nothing itself.
func TestAKilledStageLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	killed := exec.CommandContext(t.Context(), os.Args[0], "is-killed")
	killed.Env = append(os.Environ(), "TMPDIR="+folder)
	said, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := said.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if left := readDir(t, folder); len(left) != 1 {
		t.Errorf("while it stages: %v, want its folder", left)
	}
	_ = killed.Process.Kill()
	_ = killed.Wait() // it failed: it was killed
	for len(readDir(t, folder)) > 0 {
		time.Sleep(time.Millisecond) // the test's own limit ends this
	}
}

func readDir(t *testing.T, folder string) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// wantNothingLeft fails where a process that this one started still runs.
func wantNothingLeft(t *testing.T) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		if fields := strings.Fields(string(rest)); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			t.Errorf("still running: %s", stat)
		}
	}
}
