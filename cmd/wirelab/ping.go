package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/scenario"
)

type pingFlags struct {
	compareFlags
	inFlight string
	stream   bool
}

// maxSweepPoints limits how many numbers of calls in flight a sweep measures.
const maxSweepPoints = 12

func (a *app) pingCommand() *cobra.Command {
	var p pingFlags
	cmd := &cobra.Command{
		Use:   "ping",
		Short: "Vary the number of calls in flight, and name what limits throughput",
		Long: `Ping calls with an empty message, with more and more calls in flight, over each
connection mode. It prints throughput and latency beside the ideal line, which is
the throughput of one call times the number of calls in flight, and beside the
universal scalability law fitted to the results. Then it names the bottleneck
and its figures, if there is one.`,
		Example: `  wirelab ping --stack grpc --inflight 1..48 --conns shared,per-worker,pool:4
  wirelab ping --stack tcp,h2 --inflight 1,2,4,8,16 --conns shared,pool:4 -z 2s
  wirelab ping --stack grpc --stream
  wirelab ping --stack grpc --inflight 1,48 --link delay=5ms
  wirelab ping --dry-run     # how many trials, and about how long`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.compare(cmd, &p.compareFlags, p.scenario)
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.inFlight, "inflight", "1..48", "calls in `flight`: FIRST..LAST, or a list")
	f.StringSliceVar(&p.connections, "conns", []string{"shared", "per-worker", "pool:4"}, "connection `modes`, each measured with all numbers of calls in flight")
	f.BoolVar(&p.stream, "stream", false, "send each ping as a message of a stream that stays open")
	p.registerShared(cmd, "grpc", time.Second)
	p.output.register(cmd)
	setCompletions(cmd, "conns", scenario.ConnectionModes())
	return cmd
}

func (p *pingFlags) scenario() (*scenario.Scenario, error) {
	var err error
	if p.clients, err = parseInFlight(p.inFlight); err != nil {
		return nil, fmt.Errorf("--inflight: %w", err)
	}
	p.workload, p.sizes = "ping", []string{"0"}
	if p.stream {
		p.workload = "chat"
	}
	s, err := p.compareFlags.scenario()
	if err != nil {
		return nil, err
	}
	s.Name = "ping"
	s.Title = "Ping over " + joinVariants(s.Parts[0].Stacks)
	s.Question = "What limits throughput as the calls in flight increase?"
	for i := range s.Parts {
		s.Parts[i].Name = "ping" + strings.TrimPrefix(s.Parts[i].Name, "compare")
		s.Parts[i].Of = strings.Replace(s.Parts[i].Of, "compare", "ping", 1)
	}
	return s, nil
}

// parseInFlight parses a list of numbers. For a range FIRST..LAST it chooses numbers in the range.
func parseInFlight(text string) ([]int, error) {
	if first, last, isRange := strings.Cut(text, ".."); isRange {
		a, errA := strconv.Atoi(strings.TrimSpace(first))
		b, errB := strconv.Atoi(strings.TrimSpace(last))
		if errA != nil || errB != nil || a < 1 || b < a {
			return nil, fmt.Errorf("%q: want FIRST..LAST, as in 1..48", text)
		}
		return sweepPoints(a, b), nil
	}
	var points []int
	for one := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(one))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q: want calls in flight from 1, as in 1..48 or 1,4,16", text)
		}
		if !slices.Contains(points, n) {
			points = append(points, n)
		}
	}
	slices.Sort(points)
	return points, nil
}

// sweepPoints returns first, its doublings and last. Above 8, where curves bend, it adds midpoints.
func sweepPoints(first, last int) []int {
	points := []int{first}
	for n := first; n < last; n *= 2 {
		points = append(points, n)
		if half := n + n/2; n >= 8 && half < last {
			points = append(points, half)
		}
	}
	points = append(points, last)
	slices.Sort(points)
	points = slices.Compact(points)
	for len(points) > maxSweepPoints {
		points = slices.Delete(points, 1, 2)
	}
	return points
}
