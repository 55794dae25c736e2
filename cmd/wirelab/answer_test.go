package main

import (
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// undecidedAt returns a run of a command in which tcp is proven faster than grpc, but not with 16
// clients.
func undecidedAt(command string) *analysis.Summary {
	s := &analysis.Summary{Command: strings.Fields(command), Planned: 24, Done: 24}
	for _, bytes := range []int{64, 4096} {
		for _, clients := range []int{1, 16} {
			at := record.Place{Payload: record.Payload{RequestBytes: bytes, ResponseBytes: bytes}, Clients: clients}
			for _, name := range []string{"tcp", "grpc"} {
				s.Cells = append(s.Cells, matrix.Cell{Cell: record.Cell{Part: "compare", Variant: name, Place: at, Load: record.Load{Model: "closed"}}, Trials: 6, Valid: 6})
			}
			c := compare.Comparison{Part: "compare", A: "tcp", B: "grpc", Place: at, Metric: matrix.Mean, Pairs: 6, Verdict: compare.Faster}
			c.Ratio = matrix.Figure{Value: 0.5, Interval: &matrix.Interval{Low: 0.4, High: 0.6, Confidence: 0.95}}
			if clients == 16 {
				c.Verdict, c.Ratio.Value, c.Ratio.Interval.High = compare.Undecided, 0.99, 1.4
			}
			s.Comparisons = append(s.Comparisons, c)
		}
	}
	return s
}

// The command that an answer suggests is the run's own with the open points, and it can be run.
func TestTheSuggestedCommandCanBeRun(t *testing.T) {
	for given, want := range map[string]string{
		"wirelab compare": "wirelab compare -c 16 ",
		"wirelab compare --stack tcp,grpc -c 1,16 --size 64,4KiB --repeat 6 -z 300ms -o out": "wirelab compare --stack tcp,grpc --size 64,4KiB -z 300ms -c 16 ",
		"wirelab compare -c1,16 --json --live=127.0.0.1:0 --rps=100 --until verdict":         "wirelab compare --rps=100 -c 16 ",
		"wirelab compare --concurrency=1,16 --stack=tcp,grpc --fail-if p99>+5% --baseline x": "wirelab compare --stack=tcp,grpc -c 16 ",
	} {
		command := ""
		for _, line := range advice.Answer(undecidedAt(given)) {
			if text, is := strings.CutPrefix(line, "  "); is {
				command = text
			}
		}
		if !strings.HasPrefix(command, want) {
			t.Errorf("%s becomes %q, want %q", given, command, want)
			continue
		}
		var out, problems strings.Builder
		if code := run(append(strings.Fields(command)[1:], "--dry-run"), nil, &out, &problems); code != 0 || !strings.Contains(out.String(), "trials of ") {
			t.Errorf("%s ends with %d: %s%s", command, code, out.String(), problems.String())
		}
	}
	if text := strings.Join(advice.Answer(undecidedAt("wirelab run study.yaml")), "\n"); strings.Contains(text, "\n  ") {
		t.Errorf("a command is suggested for a scenario:\n%s", text)
	}
}
