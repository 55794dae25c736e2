package levers_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/run/levers"
	"wirelab.dev/internal/run/plan"
	"wirelab.dev/internal/wire/stack/catalog"
)

var update = flag.Bool("update", false, "write the catalogue in docs/levers.md")

var words = plan.Library{}.Vocabulary()

// Every lever of the catalogue is an option of a stack, with a value that the option takes.
func TestEachLeverIsAnOptionOfAStack(t *testing.T) {
	for _, lever := range levers.Catalogue {
		if lever.Write == "" || lever.Costs == "" || len(lever.Acts) == 0 {
			t.Errorf("%s: the line to write, the price or the causes are missing", lever.Name())
		}
		stacks := lever.Stacks
		for _, s := range catalog.Stacks() {
			if len(lever.Stacks) == 0 {
				stacks = append(stacks, s.Info().Name)
			}
		}
		var refused []error
		for _, name := range stacks {
			v := scenario.Variant{Stack: name}.With(lever.Key, lever.Value)
			if lever.Key == "cert" || lever.Key == "group" || lever.Value == "resumed" {
				v = v.With("tls", "on")
			}
			if err := catalog.Check(v); err != nil {
				refused = append(refused, err)
			}
		}
		if len(refused) == len(stacks) || len(lever.Stacks) > 0 && len(refused) > 0 {
			t.Errorf("%s: %v", lever.Name(), refused)
		}
	}
}

// The table in docs/levers.md is the catalogue.
func TestManualHasTheCatalogue(t *testing.T) {
	const manual, begin, end = "../../../docs/levers.md", "<!-- catalogue -->\n", "<!-- end of catalogue -->\n"
	var table strings.Builder
	table.WriteString("| lever | stacks | acts on | line for your program | price |\n| --- | --- | --- | --- | --- |\n")
	for _, l := range levers.Catalogue {
		name := "`" + l.Name() + "`"
		if l.OnlyNamed != "" {
			name += " (only with `--levers`)"
		}
		stacks := "all that have the option"
		if len(l.Stacks) > 0 {
			stacks = strings.Join(l.Stacks, ", ")
		}
		acts := strings.Join(lists.Map(l.Acts, func(k insight.CauseKind) string { return string(k) }), ", ")
		fmt.Fprintf(&table, "| %s | %s | %s | `%s` | %s |\n", name, stacks, acts, strings.ReplaceAll(l.Write, "|", `\|`), l.Costs)
	}
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s lacks %q or %q", manual, begin, end)
	}
	want := before + begin + table.String() + end + after
	if *update {
		if err := os.WriteFile(manual, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Error("docs/levers.md is not the catalogue: run this test with -update")
	}
}

// ask returns the question about the last of the variants, which are measured with these settings.
func ask(t *testing.T, settings string, variants ...string) *levers.Question {
	t.Helper()
	text := fmt.Sprintf("version: 1\nname: try\nparts:\n  - {name: main, stacks: [%s], repeats: 3, %s}\n", strings.Join(lists.Map(variants, func(v string) string { return fmt.Sprintf("%q", v) }), ", "), settings)
	s, err := scenario.Parse("try.yaml", []byte(text), words)
	if err != nil {
		t.Fatal(err)
	}
	p := s.Parts[0]
	cell := func(variant string) record.Cell {
		return record.Cell{Part: "main", Variant: variant, Place: record.Place{
			Workload: p.Workload, Clients: p.Clients[0],
			Payload: record.Payload{RequestBytes: int(p.Sizes[0].Request), ResponseBytes: int(p.Sizes[0].Response)},
		}}
	}
	q := &levers.Question{Words: words, Run: s, Of: cell(p.Stacks[len(p.Stacks)-1].String())}
	if len(p.Stacks) > 1 {
		fast := cell(p.Stacks[0].String())
		q.Against = &fast
	}
	return q
}

func triedBy(t *testing.T, q *levers.Question) (part scenario.Part, names []string) {
	t.Helper()
	s, err := q.Scenario()
	if err != nil {
		t.Fatal(err)
	}
	part = s.Parts[0]
	return part, lists.Map(part.Levers.Tried, func(l scenario.Lever) string { return l.Name })
}

func TestSuspectsChooseTheLevers(t *testing.T) {
	for _, c := range []struct {
		settings, variant string
		suspects          []insight.CauseKind
		first             string
		never             []string
	}{
		{"sizes: [64], clients: [1]", "grpc", []insight.CauseKind{insight.ByCollector}, "gogc=400", []string{"conns=4", "window=16MiB", "tls=off", "smallobject=64KiB"}},
		{"sizes: [1MiB], clients: [1]", "grpc", []insight.CauseKind{insight.ByWindow}, "window=16MiB", []string{"conns=4"}},
		{"sizes: [64], clients: [48]", "grpc", []insight.CauseKind{insight.ByConnection}, "conns=4", nil},
		{"sizes: [64KiB], clients: [500]", "tcp", []insight.CauseKind{insight.ByFaults}, "buffers=pooled", []string{"conns=4"}},
		{"sizes: [64], clients: [4], connection: new", "h1:cert=rsa,tls=on", []insight.CauseKind{insight.ByHandshake}, "without cert=rsa", nil},
		{"sizes: [1MiB], clients: [1]", "grpc:window=64KiB", nil, "without window=64KiB", nil},
	} {
		q := ask(t, c.settings, c.variant)
		q.Suspects = c.suspects
		part, names := triedBy(t, q)
		if names[0] != c.first || slices.ContainsFunc(c.never, func(name string) bool { return slices.Contains(names, name) }) || len(names) > 8 {
			t.Errorf("%s, %s, %v: tries %v", c.variant, c.settings, c.suspects, names)
		}
		if len(part.Stacks) != len(names)+1 || part.Stacks[0].String() != q.Of.Variant || part.Repeats != 3 || part.Load.Duration == 0 || len(part.Probes) > 0 {
			t.Errorf("%s: the part is %+v", c.variant, part)
		}
	}
}

// A lever that is not tried is named with the reason.
func TestLeversThatAreLeftOutAreNamed(t *testing.T) {
	q := ask(t, "sizes: [64KiB], clients: [50]", "grpc:gogc=10,tls=on")
	part, names := triedBy(t, q)
	if len(names) != 8 || len(part.Levers.NotTried) == 0 {
		t.Fatalf("tries %v, leaves out %v", names, part.Levers.NotTried)
	}
	all := slices.Clone(names)
	for _, left := range part.Levers.NotTried {
		if all = append(all, left.Name); !strings.Contains(left.Why, "--levers "+left.Name) {
			t.Errorf("%s is left out: %s", left.Name, left.Why)
		}
	}
	if !slices.Contains(all, "smallobject=64KiB") || slices.Contains(names, "smallobject=64KiB") {
		t.Errorf("a lever that needs a build of the runtime: tries %v", names)
	}
}

// The faster variant is measured once. If one setting makes the difference, taking it out is a lever.
func TestTheFasterVariantIsMeasuredToo(t *testing.T) {
	part, names := triedBy(t, ask(t, "sizes: [64], clients: [4]", "grpc", "grpc:gogc=10"))
	if part.Levers.Against.String() != "grpc" || part.Stacks[1].String() != "grpc" || names[0] != "without gogc=10" || names[1] != "gogc=400" {
		t.Errorf("against %s: %v tries %v", part.Levers.Against, part.Stacks, names)
	}
	for i, one := range part.Stacks {
		if slices.ContainsFunc(part.Stacks[:i], func(before scenario.Variant) bool { return before.String() == one.String() }) {
			t.Errorf("%s is measured twice", one)
		}
	}
}

// With several clients each end is delayed, by less than a call takes.
func TestEndsAreDelayedWithSeveralClients(t *testing.T) {
	q := ask(t, "sizes: [64], clients: [16]", "tcp")
	q.Mean = 800 * time.Microsecond
	part, names := triedBy(t, q)
	if last := part.Levers.Tried[len(names)-2:]; last[0].Stack.String() != "tcp:busy-server=25us" || last[1].Name != "busy-client=25us" || time.Duration(last[1].Delay) != 25*time.Microsecond {
		t.Errorf("%+v", last)
	}
	for _, other := range []*levers.Question{ask(t, "sizes: [64], clients: [1]", "tcp"), ask(t, "sizes: [64], clients: [16]", "tcp")} {
		other.Mean, other.Figure = q.Mean, matrix.CPU
		if other.Of.Clients == 1 {
			other.Figure = ""
		}
		if _, names := triedBy(t, other); slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "busy-") }) {
			t.Errorf("%d clients, of %q: tries %v", other.Of.Clients, other.Figure, names)
		}
	}
}

func TestNamedLeversReplaceTheCatalogue(t *testing.T) {
	q := ask(t, "sizes: [64], clients: [1]", "fake:delay=5ms")
	q.Named, q.Figure = []string{"delay=1ms", "gogc=400"}, matrix.P99
	part, names := triedBy(t, q)
	if !slices.Equal(names, q.Named) || part.Levers.Tried[1].Costs == "" || part.Levers.Figure != "p99" || part.Load.Duration < 1e9 {
		t.Errorf("%+v", part)
	}
	for named, want := range map[string]string{
		"delay":     `--levers: found "delay": want an option of the stack with its value, as in gogc=400`,
		"speed=2":   `fake has no option "speed"`,
		"delay=5ms": "fake:delay=5ms already has delay=5ms: name another value",
	} {
		q.Named = []string{named}
		if _, err := q.Scenario(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", named, err, want)
		}
	}
	q.Named, q.Figure = nil, "p95"
	if _, err := q.Scenario(); err == nil || !strings.Contains(err.Error(), `--of: found "p95": want one of mean, p99, cpu`) {
		t.Errorf("of p95: %v", err)
	}
}

func TestWhatHasNoLeverIsRefused(t *testing.T) {
	target := ask(t, "sizes: [64], clients: [1]", "tcp")
	target.Of.Target = "127.0.0.1:9000"
	gone := ask(t, "sizes: [64], clients: [1]", "tcp")
	gone.Of.Part = "other"
	for _, c := range []struct {
		q    *levers.Question
		want string
	}{
		{target, "measure the stack without --target"},
		{gone, `the run's scenario has no part "other"`},
		{ask(t, "sizes: [64], clients: [1], load: {model: search, goal: p99<10ms, duration: 1s}", "tcp"), "measure one rate with --rps"},
	} {
		if _, err := c.q.Scenario(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func effect(name, variant string, verdict compare.Verdict) compare.LeverEffect {
	return compare.LeverEffect{Name: name, Variant: variant, Verdict: verdict}
}

// The best two levers that set different options are tried together; a setting that one of them takes
// out stays out.
func TestTheBestTwoAreTriedTogether(t *testing.T) {
	q := ask(t, "sizes: [1MiB], clients: [1]", "grpc:gogc=10,window=64KiB")
	together := func(all ...compare.LeverEffect) *scenario.Scenario {
		s, err := q.Together([]compare.LeverTest{{Levers: all}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := together(
		effect("gogc=400", "grpc:gogc=400,window=64KiB", compare.Faster),
		effect("gogc=off", "grpc:gogc=off,window=64KiB", compare.Faster),
		effect("without window=64KiB", "grpc:gogc=10", compare.Faster),
		effect("conns=4", "grpc:conns=4,gogc=10,window=64KiB", compare.Undecided))
	if s == nil {
		t.Fatal("two levers help, and nothing is tried together")
	}
	var stacks []string
	for _, v := range s.Parts[0].Stacks {
		stacks = append(stacks, v.String())
	}
	if want := []string{"grpc:gogc=10,window=64KiB", "grpc:gogc=400,window=64KiB", "grpc:gogc=10", "grpc:gogc=400"}; !slices.Equal(stacks, want) {
		t.Errorf("measures %v, want %v", stacks, want)
	}
	if both := s.Parts[0].Levers.Tried[2]; both.Name != "gogc=400 and without window=64KiB" || len(both.Both) != 2 {
		t.Errorf("%+v", both)
	}
	if s := together(effect("gogc=400", "grpc:gogc=400,window=64KiB", compare.Faster), effect("gogc=off", "grpc:gogc=off,window=64KiB", compare.Faster)); s != nil {
		t.Errorf("two values of one option are tried together: %+v", s.Parts[0].Stacks)
	}
	if s, err := q.Together(nil); s != nil || err != nil {
		t.Errorf("without a test: %v, %v", s, err)
	}
}

// A run that a fleet measured, and one without a cell, have no lever.
func TestAskNamesWhatIsMissing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	run, err := record.Create(dir, record.Manifest{Name: "try", Scenario: []byte(`{"version":1,"name":"try","parts":[{"name":"main","stacks":["tcp"],"sizes":["64"],"clients":[1]}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := levers.Ask(dir, &analysis.Summary{}, "", words); err == nil || !strings.Contains(err.Error(), "no cell yet") {
		t.Errorf("without a cell: %v", err)
	}
	run.Manifest.Fleet = &record.FleetWanted{}
	if err := run.Finish(record.Done); err != nil {
		t.Fatal(err)
	}
	if _, err := levers.Ask(dir, &analysis.Summary{}, "", words); err == nil || !strings.Contains(err.Error(), "without --fleet") {
		t.Errorf("of a fleet: %v", err)
	}
}

// For the P99, the causes of the slow calls come first, each cause once.
func TestTheSlowCallsSuspectsComeFirst(t *testing.T) {
	q := ask(t, "sizes: [64KiB], clients: [500]", "tcp")
	q.Figure, q.Suspects, q.SlowSuspects = matrix.P99, []insight.CauseKind{insight.ByRunQueue, insight.ByPackets}, []insight.CauseKind{insight.ByFaults, insight.ByRunQueue}
	if _, names := triedBy(t, q); names[0] != "buffers=pooled" {
		t.Errorf("tries %v", names)
	}
	if want := []insight.CauseKind{insight.ByFaults, insight.ByRunQueue, insight.ByPackets}; !slices.Equal(q.Suspects, want) {
		t.Errorf("suspects %v, want %v", q.Suspects, want)
	}
}
