package bulk

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/link"
)

// A pairing names the library at each end.
type pairing struct{ client, server string }

func (p pairing) name() string {
	if p.client == p.server {
		return p.client
	}
	return p.client + " → " + p.server
}

// pairings lists all pairings. The first is the base of comparison.
var pairings = []pairing{{grpcGo, grpcGo}, {fast, fast}, {fast, grpcGo}, {grpcGo, fast}, {credits, credits}}

// A cell is one point of the honest grid.
type cell struct {
	load
	window int // 0: each library's own
	delay  time.Duration
}

func (c cell) name() string {
	name := fmt.Sprintf("%s %dx%d up=%s down=%s", c.Kind, c.Callers, c.Calls, size(c.Up), size(c.Down))
	if c.window > 0 {
		name += " window=" + size(c.window)
	}
	if c.delay > 0 {
		name += fmt.Sprintf(" delay=%v", c.delay)
	}
	return strings.ReplaceAll(name, " ", "_")
}

// size writes a number of bytes as the tables do.
func size(n int) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.3gGB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.3gMB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.3gKB", float64(n)/1e3)
	}
	return fmt.Sprintf("%dB", n)
}

// judgesRounds counts the rounds of each cell in make judges.
const judgesRounds = 3

const (
	maxInFlight = 520_000_000 // grpc-go may take ten times as much memory
	usualVolume = 100_000_000 // bytes of a run, if no caller needs more
	maxCalls    = 5_000       // of a run
)

// plan returns the cell with as many calls as make a usual run, or nothing where there
// would be too much at once.
func plan(kind string, callers, up, down int) []cell {
	l := load{Callers: callers, Up: up, Down: down, Kind: kind}
	bytes := callers * max(up, down)
	if bytes > maxInFlight {
		return nil
	}
	l.Calls = max(2, min(usualVolume/bytes, maxCalls/callers))
	return []cell{{load: l}}
}

// with sets the windows or the link of cells.
func with(cells []cell, window int, delay time.Duration) []cell {
	for i := range cells {
		cells[i].window, cells[i].delay = window, delay
		if delay > 0 && cells[i].Kind == unary { // each call takes a round trip or more
			cells[i].Calls = min(cells[i].Calls, 100)
		}
	}
	return cells
}

// honestGrid returns all cells, or those that take seconds.
func honestGrid(all bool) (grid []cell) {
	if !all {
		return slices.Concat(
			plan(unary, 1000, 1, 100_000), plan(unary, 1000, 100_000, 0), plan(unary, 60, 1_000_000, 1_000_000),
			plan(unary, 5000, 0, 1000), plan(download, 100, 0, 100_000), plan(upload, 100, 100_000, 0), plan(unary, 2, 0, 64_000_000),
			with(plan(unary, 200, 0, 100_000), 65535, 0), with(plan(unary, 20, 0, 1_000_000), 0, 2*time.Millisecond),
		)
	}
	callers := []int{1, 10, 50, 200, 1000, 5000}
	for _, n := range callers {
		for _, size := range []int{1, 1000, 16_000, 100_000, 1_000_000, 4_000_000, 16_000_000, 64_000_000, 256_000_000} {
			grid = append(grid, plan(unary, n, 0, size)...)
			grid = append(grid, plan(unary, n, size, 0)...)
			if size <= 4_000_000 {
				grid = append(grid, plan(unary, n, size, size)...)
			}
		}
		for _, size := range []int{1000, 100_000, 4_000_000} {
			grid = append(grid, plan(upload, n, size, 0)...)
			grid = append(grid, plan(download, n, 0, size)...)
		}
	}
	for _, window := range []int{65535, 1 << 20, 16 << 20} {
		for _, n := range []int{10, 200, 1000} {
			for _, size := range []int{1000, 100_000, 1_000_000} {
				grid = append(grid, with(slices.Concat(plan(unary, n, 0, size), plan(unary, n, size, 0)), window, 0)...)
			}
		}
	}
	for _, n := range []int{1, 50, 1000} {
		for _, size := range []int{1000, 100_000, 1_000_000} {
			grid = append(grid, with(slices.Concat(plan(unary, n, 0, size), plan(unary, n, size, 0), plan(download, n, 0, size)), 0, 2*time.Millisecond)...)
		}
	}
	return grid
}

// stage is the processes of both ends, on loopback or at the ends of a link.
type stage struct {
	servers, clients map[string]*process
	address          string
	missing          error // why the machine allows no link
}

func newStage(t *testing.T, delay time.Duration) *stage {
	s := &stage{servers: map[string]*process{}, clients: map[string]*process{}, address: "127.0.0.1:0"}
	var enterServer, enterClient func() error
	if delay > 0 {
		path := record.Way{DelayNS: delay.Nanoseconds()}
		network, err := link.New(link.Settings{Up: path, Down: path, Seed: 1})
		if err != nil {
			s.missing = err
			return s
		}
		t.Cleanup(func() { _ = network.Close() })
		enterServer, enterClient, s.address = network.EnterServer, network.EnterClient, network.Address+":0"
	}
	for _, p := range pairings {
		if p.client == p.server {
			s.servers[p.server] = start(t, "server", enterServer)
			s.clients[p.client] = start(t, "client", enterClient)
		}
	}
	return s
}

// An outcome holds the figures of one pairing in one run of a cell.
type outcome struct {
	result
	cpu       time.Duration // of both ends
	serverRSS uint64
}

func (s *stage) play(t *testing.T, p pairing, c cell) outcome {
	t.Helper()
	settings := settings{Window: c.window}
	if most := max(c.Up, c.Down); most > 4<<20-64 {
		settings.MaxReceive = most + 1<<10
	}
	server, client := s.servers[p.server], s.clients[p.client]
	settings.Library = p.server
	address := server.do(t, order{Do: "listen", Settings: settings, Address: s.address, Load: c.load}).Address
	before := server.do(t, order{Do: "cpu"}).Usage
	settings.Library = p.client
	result := client.do(t, order{Do: "run", Settings: settings, Address: address, Load: c.load}).Result
	after := server.do(t, order{Do: "cpu"}).Usage
	server.do(t, order{Do: "stop"})
	return outcome{result, result.CPU + after.CPU - before.CPU, after.PeakRSS}
}

// TestHonest plays each cell by each pairing by turns, in an order that is mirrored each
// round. A call may fail only where grpc-go's fails. The rest it prints, and with UPDATE=1
// writes into docs/bulk.md.
func TestHonest(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: hundreds of megabytes take some seconds")
	}
	all := os.Getenv("JUDGES") != ""
	rounds := 1
	if all {
		rounds = judgesRounds
	}
	stages := map[time.Duration]*stage{}
	table := &table{}
	for _, c := range honestGrid(all) {
		s, ok := stages[c.delay]
		if !ok {
			s = newStage(t, c.delay)
			stages[c.delay] = s
		}
		t.Run(c.name(), func(t *testing.T) {
			if s.missing != nil {
				t.Skip(s.missing)
			}
			outcomes := make([][]outcome, len(pairings))
			for round := range rounds {
				for i := range pairings {
					if round%2 == 1 {
						i = len(pairings) - 1 - i
					}
					outcomes[i] = append(outcomes[i], s.play(t, pairings[i], c))
				}
			}
			table.add(t, c, outcomes)
		})
	}
	if all && os.Getenv("UPDATE") != "" {
		table.write(t)
	}
}

// ratios returns each round's quotient of a figure and the first pairing's, sorted.
func ratios(of, base []outcome, figure func(outcome) float64) []float64 {
	quotients := make([]float64, len(of))
	for i := range of {
		quotients[i] = figure(of[i]) / figure(base[i])
	}
	slices.SortFunc(quotients, cmp.Compare)
	return quotients
}

func median(sorted []float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[len(sorted)/2]
}

func cpuOf(o outcome) float64 { return o.cpu.Seconds() }
func p99Of(o outcome) float64 { return o.P99.Seconds() }
