package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// repeated describes a run that goes on until all its comparisons are decided. At each point
// it compares each variant with the next.
type repeated struct {
	points, comparisons int // with 3 comparisons the last variant is compared with the first
	first, most         int
	ratio               float64 // of one variant to the others
	noise               func(*rand.Rand) float64
	naive               bool // look at all of 5 % each time
	timed               bool // time ends the run, at any of its looks
}

// ending describes the end of a run.
type ending struct {
	repeats           int
	decided, wrong    bool // all of them; any falsely
	covers, intervals int  // of the intervals, those that hold the truth
}

func (e repeated) run(seed uint64) (end ending) {
	random := rand.New(rand.NewPCG(seed, 11))
	noises := make([]float64, e.points)
	for i := range noises {
		noises[i] = e.noise(random)
	}
	logs := make([][3][]float64, e.points)
	looks := matrix.PlanLooks(e.first, e.most)
	last := len(looks) - 1
	if e.timed {
		last = random.IntN(len(looks))
	}
	for n, look := range looks[:last+1] {
		for i := range logs {
			for stack := range logs[i] {
				for len(logs[i][stack]) < look.Repeats {
					logs[i][stack] = append(logs[i][stack], noises[i]*random.NormFloat64())
				}
			}
		}
		end = ending{repeats: look.Repeats, decided: true}
		until := record.Until{Looks: looks, Begun: n + 1}
		if e.timed && n == last {
			until.Ended = record.EndedByTime
		}
		var f Family
		level := matrix.LevelAfter(&until, math.MaxInt)
		if e.naive {
			level = 0
		}
		for i := range logs {
			for stack := range e.comparisons {
				truth := 0.0
				switch stack { // the first is the one that differs
				case 0:
					truth = math.Log(e.ratio)
				case 2:
					truth = -math.Log(e.ratio)
				}
				figures := [2][]float64{}
				for repeat, log := range logs[i][stack] {
					figures[0], figures[1] = append(figures[0], math.Exp(truth+log)), append(figures[1], math.Exp(logs[i][(stack+1)%3][repeat]))
				}
				ratio := pairedRatio(figures[0], figures[1])
				ratio.Level = level
				f.Add(ratio, func(c stats.Comparison) {
					end.decided = end.decided && (c.Verdict == stats.Higher || c.Verdict == stats.Lower || isEqual(c))
					end.wrong = end.wrong || c.Verdict == stats.Higher && truth <= 0 || c.Verdict == stats.Lower && truth >= 0 ||
						c.Verdict == stats.Equivalent && math.Abs(truth) > math.Log1p(c.Margin)
					if end.intervals++; math.Abs(math.Log(c.Ratio.Low)+math.Log(c.Ratio.High)-2*truth) <= math.Log(c.Ratio.High/c.Ratio.Low) {
						end.covers++
					}
				})
			}
		}
		f.Judge()
		if end.decided {
			break
		}
	}
	return end
}

// Looking again and again finds no more of what is not there than one look does, and the
// intervals of runs that stopped hold the truth.
func TestLookingAgainKeepsTheLevel(t *testing.T) {
	if testing.Short() {
		t.Skip("short: simulates thousands of runs")
	}
	const runs = 1000
	for _, c := range []struct {
		name string
		repeated
	}{
		{"1 equal, 2 %", repeated{1, 1, 3, 30, 1, even(0.02), false, false}},
		{"1 equal, 5 %", repeated{1, 1, 3, 30, 1, even(0.05), false, false}},
		{"1 equal, 10 %", repeated{1, 1, 3, 30, 1, even(0.10), false, false}},
		{"1, 20 % apart, 2 %", repeated{1, 1, 3, 30, 1.2, even(0.02), false, false}},
		{"1, 20 % apart, 5 %", repeated{1, 1, 3, 30, 1.2, even(0.05), false, false}},
		{"1, 20 % apart, 10 %", repeated{1, 1, 3, 30, 1.2, even(0.10), false, false}},
		{"1, 6 % apart, 5 %", repeated{1, 1, 3, 30, 1.06, even(0.05), false, false}},
		{"3 equal, 5 %", repeated{1, 3, 3, 30, 1, even(0.05), false, false}},
		{"3 equal, 5 %, up to 100 repeats", repeated{1, 3, 3, 100, 1, even(0.05), false, false}},
		{"3, one variant 10 % apart, 5 %", repeated{1, 3, 3, 30, 1.1, even(0.05), false, false}},
		{"3, one variant 20 % apart, 10 %", repeated{1, 3, 3, 30, 1.2, even(0.10), false, false}},
		{"1 equal, 10 %, until time is over", repeated{1, 1, 3, 30, 1, even(0.10), false, true}},
		{"3, one variant 20 % apart, 10 %, until time is over", repeated{1, 3, 3, 30, 1.2, even(0.10), false, true}},
		{"36 equal, 5 %", repeated{12, 3, 3, 30, 1, even(0.05), false, false}},
		{"36 equal, 1.5 to 15 %", repeated{12, 3, 3, 30, 1, uneven, false, false}},
		{"36, one variant 20 % apart, 1.5 to 15 %", repeated{12, 3, 3, 30, 1.2, uneven, false, false}},
	} {
		var wrong, decided, repeats, covers, intervals int
		for seed := range uint64(runs) {
			end := c.run(seed)
			repeats += end.repeats
			covers, intervals = covers+end.covers, intervals+end.intervals
			if end.wrong {
				wrong++
			}
			if end.decided {
				decided++
			}
		}
		naive, naively := c.repeated, 0
		naive.naive = true
		for seed := range uint64(runs) {
			if naive.run(seed).wrong {
				naively++
			}
		}
		covered := 100 * float64(covers) / float64(intervals)
		t.Logf("| %s | %.0f | %.0f %% | %.1f %% | %.1f %% | %.0f %% |", c.name, float64(repeats)/runs, 100*float64(decided)/runs,
			100*float64(wrong)/runs, 100*float64(naively)/runs, covered)
		if wrong > runs*5/100 || covered < 95 {
			t.Errorf("%s: wrong in %d of %d runs, intervals hold the truth in %.1f %%", c.name, wrong, runs, covered)
		}
	}
}

func TestWhatALookFinds(t *testing.T) {
	plan := cellsOf(2, 3)
	plan = append(plan, record.Cell{Part: "p", Variant: "refused", Place: record.Place{Clients: 9}})
	records := recordsOf(plan, 0.02)
	records[len(records)-1].Failure = "refused"
	look := func(u record.Until) Look {
		t.Helper()
		u.Begun, u.Looks = 1, matrix.PlanLooks(3, 30)
		found, err := EvaluateLook(&record.Manifest{Until: &u}, records)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for _, c := range []struct {
		until record.Until
		want  Look
	}{
		{record.Until{Width: 0.001}, Look{Open: 6, Of: 6}},
		{record.Until{Width: 0.9}, Look{Of: 6}},
		{record.Until{}, Look{Open: 6, Of: 6}},
	} {
		if got := look(c.until); got.Open != c.want.Open || got.Of != c.want.Of {
			t.Errorf("until %+v: %+v, want %+v", c.until, got, c.want)
		}
	}
	for i, cell := range plan { // one is ten times as slow as the two others, which are one
		records[i].Service.Sum = 1e8
		if cell.Variant == "c" {
			records[i].Service.Sum = 1e9
		}
	}
	if got := look(record.Until{}); got.Open != 0 || got.Of != 6 || len(got.Points) != 0 {
		t.Errorf("all is plain, and %+v", got)
	}
	records[0].Checks = []record.Check{{Name: "gaps", Level: record.Invalid}}
	for _, r := range records { // one cell has been spoiled each time, and may be measured yet
		if r.Cell == records[0].Cell {
			r.Checks = records[0].Checks
		}
	}
	if got := look(record.Until{}); got.Open != 2 || got.Of != 6 {
		t.Errorf("a cell is spoiled, and %+v", got)
	}
	if got := look(record.Until{Width: 0.9}); got.Open != 1 || got.Of != 6 {
		t.Errorf("a cell is spoiled, and of the means %+v", got)
	}
	records = nil
	if got := look(record.Until{}); got.Open != 0 || got.Of != 0 {
		t.Errorf("nothing was measured, and %+v", got)
	}
}
