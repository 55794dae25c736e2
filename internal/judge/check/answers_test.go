package check

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"wirelab.dev/internal/data/record"
)

func answersOf(counts ...record.SizeCount) *record.Answers {
	a := &record.Answers{Sizes: counts, MinBytes: counts[0].Bytes, MaxBytes: counts[len(counts)-1].Bytes}
	return a
}

func TestOddAnswersAreSeen(t *testing.T) {
	drawn := &record.Answers{}
	random := rand.New(rand.NewPCG(5, 0))
	for range 2000 {
		size := int64(800 * math.Exp(random.NormFloat64()))
		*drawn = drawn.Plus(record.Answers{Sizes: []record.SizeCount{{Bytes: size, Count: 1}}, MinBytes: size, MaxBytes: size})
	}
	numbers := answersOf(record.SizeCount{Bytes: 1, Count: 9}, record.SizeCount{Bytes: 2, Count: 90}, record.SizeCount{Bytes: 3, Count: 900}, record.SizeCount{Bytes: 4, Count: 9000})
	named := []record.NamedCalls{{Name: "login"}, {Name: "browse"}}
	for _, c := range []struct {
		name    string
		answers *record.Answers
		also    func(*record.Record)
		level   record.Level
		says    string
	}{
		{"one size", answersOf(record.SizeCount{Bytes: 21, Count: 600}), nil, record.OK, "no answer's size stands out"},
		{
			"2 % empty", answersOf(record.SizeCount{Bytes: 0, Count: 12}, record.SizeCount{Bytes: 21, Count: 588}), nil, record.Warning,
			"12 of 600 answers had 0 B, and 588 had 21 B: look at them with --expect 'size == 21'",
		},
		{"2 % cut", answersOf(record.SizeCount{Bytes: 10, Count: 12}, record.SizeCount{Bytes: 21, Count: 588}), nil, record.Warning, "12 of 600 answers had 10 B, and 588 had 21 B"},
		{
			"cut anywhere, beside two usual sizes", answersOf(record.SizeCount{Bytes: 2, Count: 6}, record.SizeCount{Bytes: 12, Count: 6}, record.SizeCount{Bytes: 20, Count: 88}, record.SizeCount{Bytes: 21, Count: 500}), nil, record.Warning,
			"12 of 600 answers had 2 B to 12 B, and 588 had 20 B to 21 B: look at them with --expect 'size >= 20 and size <= 21'",
		},
		{"a long error page", answersOf(record.SizeCount{Bytes: 21, Count: 588}, record.SizeCount{Bytes: 512, Count: 12}), nil, record.Warning, "had 512 B"},
		{"two", answersOf(record.SizeCount{Bytes: 0, Count: 2}, record.SizeCount{Bytes: 21, Count: 598}), nil, record.OK, ""},
		{"a fifth", answersOf(record.SizeCount{Bytes: 0, Count: 120}, record.SizeCount{Bytes: 21, Count: 480}), nil, record.OK, ""},
		{"sizes that differ by nature", drawn, nil, record.OK, "stands out"},
		{"numbers of different lengths", numbers, nil, record.OK, ""},
		{"another status", answersOf(record.SizeCount{Bytes: 0, Count: 30}, record.SizeCount{Bytes: 2000, Count: 570}), func(r *record.Record) {
			r.Statuses = []record.StatusCount{{Status: 200, Count: 570}, {Status: 304, Count: 30}}
		}, record.OK, ""},
		{"steps of a user", answersOf(record.SizeCount{Bytes: 0, Count: 30}, record.SizeCount{Bytes: 2000, Count: 570}), func(r *record.Record) { r.Named = named }, record.OK, ""},
		{"an older record", nil, nil, record.OK, "does not report"},
	} {
		r := sound(t)
		if r.Answers = c.answers; c.also != nil {
			c.also(r)
		}
		wantOnly(t, c.name, r, "sizes", c.level, c.says)
	}
}

func TestConnectionsThatStandOutAreSeen(t *testing.T) {
	usual := record.ConnectionCalls{Requests: 560, SumNS: 560 * 5.3e6, P25NS: 5.2e6, P90NS: 5.5e6}
	slow := record.ConnectionCalls{Requests: 118, SumNS: 118 * 25.3e6, P25NS: 25.2e6, P90NS: 25.6e6}
	few, near, failing := slow, usual, usual
	few.Requests, few.SumNS = 19, 19*25.3e6
	near.SumNS, near.P25NS, near.P90NS = 560*6.5e6, 6.4e6, 6.7e6
	failing.Failed = 211
	broken := record.ConnectionCalls{Requests: 40_000, Failed: 40_000, SumNS: 40_000 * 5e4, P25NS: 4e4, P90NS: 6e4}
	some := usual
	some.Failed = 26
	for _, c := range []struct {
		name  string
		all   []record.ConnectionCalls
		level record.Level
		says  string
	}{
		{"alike", []record.ConnectionCalls{usual, usual, usual, usual}, record.OK, "no connection is much slower"},
		{"1 of 4", []record.ConnectionCalls{usual, slow, usual, usual}, record.Warning, "1 of 4 connections is 20 ms slower than the others: mean 25.3 ms against 5.3 ms; it made "},
		{"2 of 4", []record.ConnectionCalls{usual, slow, usual, slow}, record.Warning, "2 of 4 connections are 20 ms slower"},
		{"3 of 4", []record.ConnectionCalls{usual, slow, slow, slow}, record.OK, ""},
		{"1 of 2", []record.ConnectionCalls{usual, slow}, record.Warning, "1 of 2 connections is"},
		{"with few calls", []record.ConnectionCalls{usual, few, usual, usual}, record.OK, ""},
		{"a quarter slower", []record.ConnectionCalls{usual, near, usual, usual}, record.OK, ""},
		{"1 fails", []record.ConnectionCalls{usual, failing, usual, usual, usual, usual, usual, usual}, record.Warning, "all 211 failures were on 1 of 8 connections"},
		{"1 fails at once", []record.ConnectionCalls{usual, broken}, record.Warning, "all 40000 failures were on 1 of 2 connections"},
		{"all fail now and then", []record.ConnectionCalls{some, some, some, some}, record.OK, ""},
		{"one connection", []record.ConnectionCalls{usual}, record.OK, "does not apply"},
	} {
		r := sound(t)
		r.ByConnection = c.all
		var failed int64
		for i := range r.ByConnection {
			r.ByConnection[i].Client = i
			failed += r.ByConnection[i].Failed
		}
		if failed > 0 {
			fails(r, failed)
		}
		wantCheckSays(t, c.name, r, "single-connections", c.level, c.says)
	}
}

// Equal connections differ by chance: a busy machine, slow times that hit some of them, few calls,
// calls of two kinds, and now and then a failure. No window of 20,000 may tell of a connection, and a
// connection that is 10 % slow is no finding either.
func TestEqualConnectionsAreNotTold(t *testing.T) {
	windows := 20_000
	if testing.Short() {
		windows = 2_000
	}
	random := rand.New(rand.NewPCG(20261126, 3))
	told := map[string]int{}
	for i := range windows {
		connections, calls := 2+random.IntN(15), leastConnectionCalls+random.IntN(30)
		misses := []float64{0, 0.05, 0.5}[i%3]  // calls of another kind, ten times as long
		regime := []float64{0, 0.1, 0.6}[i/3%3] // share of a window in which a neighbour doubles all times
		slower := []float64{1, 1.1}[i/9%2]      // of the first connection
		failure := []float64{0, 0.02}[i/18%2]
		r := record.Record{}
		var failed int64
		for c := range connections {
			one := record.ConnectionCalls{Client: c, Requests: int64(calls)}
			times := make([]int64, calls)
			from := random.Float64() * (1 - regime) // where in its window the neighbour comes
			for n := range times {
				took := 5e6 * math.Exp(0.3*random.NormFloat64())
				if random.Float64() < misses {
					took *= 10
				}
				if at := float64(n) / float64(calls); at >= from && at < from+regime {
					took *= 2
				}
				if c == 0 {
					took *= slower
				}
				if random.Float64() < failure {
					one.Failed++
				}
				times[n] = int64(took)
				one.SumNS += times[n]
			}
			slices.Sort(times)
			one.P25NS, one.P90NS = times[calls/4], times[calls*9/10]
			failed += one.Failed
			r.Requests += one.Requests
			r.ByConnection = append(r.ByConnection, one)
		}
		r.Errors = []record.ErrorCount{{Count: failed}}
		if c := (trial{Record: &r, limits: DefaultLimits()}).checkSingleConnections(); c.Level != record.OK {
			told[fmt.Sprintf("misses %v, regime %v, slower %v, failures %v: %s", misses, regime, slower, failure, c.Detail)]++
		}
	}
	if len(told) > 0 {
		t.Errorf("%d windows of %d tell of a connection: %v", len(told), windows, told)
	}
}
