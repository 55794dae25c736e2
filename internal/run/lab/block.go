package lab

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/check"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/stack/catalog"
)

// A block measures trials together. A trial alone is a block of one, and measures one window. The
// trials of a larger block take turns:
//
//	server and client of each start and warm up, one trial after another; then all rest
//	each gets its slices: tens of milliseconds in which it alone has the machine
//	all end together
//
// So other programs disturb all trials of the block alike, and their figures can be compared.
type block struct {
	lab    *Lab
	trials []*trial
	window time.Duration // of each trial; 0: each has a window of its own
	watch  host.ActivityWatch
	turn   chan struct{} // held by the trial that starts and warms up
	rest   chan struct{} // closed when every trial rests, or has failed
	over   chan struct{} // closed when every client has ended, or none will run
	stage  Stage         // of the first trial on a fleet; the holder of turn uses it

	sharing *serviceFamily // of the processes that serve several trials: their cost cannot be divided; nil if there are none

	observing sync.Mutex // observers get one event at a time

	guard    sync.Mutex // guards the fields below
	joined   []*member
	arrived  int // trials that rest, or failed before
	ended    int // clients that have ended, or never ran
	sentinel *worker.Sentinel
	seen     watched
	spent    time.Duration // CPU time of all ends
}

// A member is a trial of a block whose client runs.
type member struct {
	trial          *trial
	server, client worker.TrialEnd
	meanNS         int64 // of its warm-up's calls
}

// measureBlock measures trials of the plan together, and returns their records in the same order. A
// worker's failure is in its trial's record; an error ends the run.
func (e *execution) measureBlock(ctx context.Context, numbers []int) ([]*record.Record, error) {
	b := &block{lab: e.Lab, watch: host.StartActivityWatch(), turn: make(chan struct{}, 1), rest: make(chan struct{}), over: make(chan struct{})}
	for _, number := range numbers {
		b.trials = append(b.trials, e.newTrial(b, number))
	}
	if first := b.trials[0].planned; b.isShared() {
		b.window = time.Duration(first.Cell.Load.Duration)
		if first.Cell.Stretch && first.Repeat > plannedWindows {
			b.window = e.scatter.nextWindow(pointOf(b.trials[0].cell()), b.window)
		}
	}
	b.findServices()
	sharedBefore, _ := b.sharing.read() // without shared processes, nothing is read
	started := time.Now()
	records, errs := make([]*record.Record, len(numbers)), make([]error, len(numbers))
	var running sync.WaitGroup
	for i, t := range b.trials {
		running.Go(func() { records[i], errs[i] = t.run(ctx) })
	}
	if b.isShared() {
		running.Go(func() { b.takeTurns(ctx) })
	}
	running.Wait()
	var machines []*worker.MachineReadings
	for _, t := range b.trials {
		machines = append(machines, t.machines()...)
	}
	worker.SubtractSiblingAgents(machines...)
	if sharedAfter, err := b.sharing.read(); err == nil {
		b.spent += sharedAfter.CPU() - sharedBefore.CPU()
	}
	if err := cmp.Or(errs...); err != nil { // an interrupt is the same error for all trials
		return nil, err
	}
	took := int64(time.Since(started)) / int64(len(numbers))
	fillPaces(records)
	for i, r := range records {
		r.TookNS = took
		if b.isShared() {
			r.Block = e.order[r.Trial].Block
		}
		b.trials[i].observed(ctx, r)
		r.Checks = check.Judge(r, check.DefaultLimits())
		e.learnWarmUp(r)
		e.learnCalls(r)
	}
	if cause := context.Cause(ctx); cause != nil && e.Fleet != nil { // the clocks were perhaps not compared
		return nil, cause
	}
	e.scatter.learn(records)
	return records, nil
}

// findServices finds the processes of the servers that run already, and those that serve several trials of the
// block, such as a database of two versions.
func (b *block) findServices() {
	if !slices.ContainsFunc(b.trials, func(t *trial) bool { return t.target() != "" }) {
		return
	}
	table := b.watch.Processes()
	var seen, shared []int
	for _, t := range b.trials {
		t.ancestors = t.findServers()
		family := table.Families(t.ancestors)
		shared = append(shared, slices.DeleteFunc(slices.Clone(family), func(pid int) bool { return !slices.Contains(seen, pid) })...)
		seen = append(seen, family...)
	}
	if len(shared) == 0 {
		return
	}
	b.sharing = newServiceFamily(table, shared)
	for _, t := range b.trials {
		t.shared = shared
	}
}

// services returns the processes of the services of all trials.
func (b *block) services() []int {
	all := b.sharing.processes()
	for _, t := range b.trials {
		all = append(all, t.service...)
	}
	return all
}

// nextStage returns agents for another trial. All trials of a block have the same ones.
func (b *block) nextStage(ctx context.Context, callers int) (Stage, error) {
	if b.stage != nil {
		return b.stage.Another(), nil
	}
	stage, err := b.lab.Fleet.Stage(ctx, callers)
	if err == nil {
		b.stage = stage
	}
	return stage, err
}

// isShared reports whether trials take turns.
func (b *block) isShared() bool { return len(b.trials) > 1 }

// awaitTurn waits until the trial may start its ends.
func (b *block) awaitTurn(ctx context.Context, t *trial) error {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	t.hasTurn = true
	b.observe(live.Begun{Trial: record.PlannedTrial{Trial: t.number, Repeat: t.planned.Repeat, Cell: recordedCell(t.planned.Cell).Key()}})
	return nil
}

func (b *block) observe(e live.Event) {
	b.observing.Lock()
	defer b.observing.Unlock()
	b.lab.observe(e)
}

// joins is called when a trial's client runs. A trial alone is watched from now on. servers holds the
// processes of its server, if they are on this machine.
func (b *block) joins(m *member, servers []int) {
	b.guard.Lock()
	defer b.guard.Unlock()
	b.joined = append(b.joined, m)
	if len(servers) > 0 && !b.lab.Unwatched {
		m.trial.waits, m.trial.service = b.watchWaits(m, servers), servers
	}
	if !b.isShared() {
		b.startSentinel()
	}
}

// progress shows the progress of the trial that began last, and lets the next one start when it
// rests.
func (b *block) progress(t *trial, p live.Progress) {
	b.guard.Lock()
	n := len(b.joined)
	isLast := n > 0 && b.joined[n-1].trial == t
	if isLast && b.isShared() && p.Settled && p.Paused && !t.rests {
		t.rests, b.joined[n-1].meanNS = true, p.MeanNS
		b.arrives(t)
	}
	b.guard.Unlock()
	if isLast {
		b.observe(p)
	}
}

// leaves is called when a trial's client has ended, or will never run. It waits until the clients of
// all trials have.
func (b *block) leaves(ctx context.Context, t *trial) {
	b.guard.Lock()
	if !t.left {
		t.left = true
		if !t.rests {
			b.joined = slices.DeleteFunc(b.joined, func(m *member) bool { return b.isShared() && m.trial == t })
			b.arrives(t)
		}
		if b.ended++; b.ended == len(b.trials) {
			b.seen.cpus, b.seen.cost = b.sentinel.Stop(ctx)
			for _, t := range b.trials {
				if t.waits != nil {
					t.waits.Stop()
				}
			}
			close(b.over)
		}
	}
	b.guard.Unlock()
	<-b.over
}

// arrives counts a trial that rests or has failed. After the last one, the slices begin.
func (b *block) arrives(t *trial) {
	if t.hasTurn {
		<-b.turn
	}
	if b.arrived++; b.arrived == len(b.trials) && b.isShared() {
		b.startSentinel()
		close(b.rest)
	}
}

// ends adds the CPU time of a trial's ends, once they have ended.
func (b *block) ends(cpu time.Duration) {
	b.guard.Lock()
	defer b.guard.Unlock()
	b.spent += cpu
}

const (
	// atRest is the time before the first slice and after the last one in which nothing is sent.
	atRest = 2 * load.RestAround
	// untilFirst is the time until the first slice. Every client must know of it by then, also on a machine
	// that is busy.
	untilFirst = 2 * atRest
	// untilFirstElsewhere is the same time for clients on other machines. Each client adds
	// untilFirstPerAgent.
	untilFirstElsewhere = untilFirst + 400*time.Millisecond
	untilFirstPerAgent  = time.Millisecond
	// shortestSlice is long beside the switch from one trial to the next, and short beside the work
	// of other programs.
	shortestSlice = 25 * time.Millisecond
	// callsPerSlice is the least number of calls, one after another, that fit into a slice.
	callsPerSlice = 5
	// callsPerRunIn is the number of calls, one after another, in the time of a turn before its slice.
	// The first calls of all callers arrive at once, and wait for each other.
	callsPerRunIn = 2
	// slicesVary bounds the difference of a slice's length from the mean, as a share. Slices of equal
	// length might keep time with a garbage collector or a timer.
	slicesVary = 0.3
	// shortestRunIn is the least time of a turn before its slice: callers wake up in it.
	shortestRunIn = 2 * time.Millisecond
	// slicePerApart is the least length of a slice, as a multiple of the time by which the clocks of a
	// trial's clients may be apart. So nearly all of a slice has the calls of all clients.
	slicePerApart = 100
)

// ShortestTurns returns the shortest window of a trial that can take turns, if a call takes mean.
func ShortestTurns(mean time.Duration) time.Duration {
	return 2 * max(shortestSlice, callsPerSlice*mean)
}

// takeTurns waits until all trials rest, and gives all members their slices.
func (b *block) takeTurns(ctx context.Context) {
	<-b.rest // every trial rests or leaves
	b.guard.Lock()
	joined := slices.Clone(b.joined)
	b.guard.Unlock()
	if len(joined) == 0 {
		return
	}
	first := b.trials[0]
	mean := time.Duration(0)
	if rate := first.planned.Cell.Load.Rate; rate > 0 {
		mean = time.Duration(float64(time.Second) / rate)
	}
	for _, m := range joined {
		mean = max(mean, min(time.Duration(m.meanNS), b.lab.drain)) // an agent may say anything
	}
	apart, lead := time.Duration(0), untilFirst
	if b.stage != nil {
		cell := first.planned.Cell
		lead = untilFirstElsewhere + time.Duration(len(joined)*b.lab.Fleet.Agents(cell.Clients))*untilFirstPerAgent
		apart = b.stage.ClocksApart(ctx, lead+2*b.window*time.Duration(len(joined)))
	}
	random := rand.New(rand.NewPCG(b.lab.seed(first.planned.Repeat), uint64(first.number)))
	all, end := drawSlices(random, len(joined), b.window, turnTimes{mean, apart}, clock.Now()+int64(lead))
	var sending sync.WaitGroup
	for i, m := range joined {
		if len(all[i]) == 1 && b.window >= ShortestTurns(mean) {
			m.trial.remark = fmt.Sprintf("each variant had its window in one piece, without slices: the clocks of the clients' machines may be %v apart, which is too much for slices in a window of %v", apart.Round(time.Microsecond), b.window)
		}
		turns := worker.ControlOrder{Control: worker.SlicesControl, AtNS: end + int64(atRest), Slices: all[i]}
		sending.Go(func() { _ = m.client.SendControl(turns) }) // a client that has ended needs no slices
		if _, foreign := catalog.ServerPeer(m.trial.planned.Cell.Variant); m.server != nil && !foreign {
			whole := turns
			whole.Slices = []load.Slice{{Send: all[i][0].Send, From: all[i][0].From, To: end}}
			sending.Go(func() { _ = m.server.SendControl(whole) }) // it reads its cost seldom meanwhile
		}
	}
	sending.Wait()
}

// turnTimes holds what the length of turns depends on.
type turnTimes struct {
	mean  time.Duration // the longest mean time of the trials' calls, or of the time between two arrivals
	apart time.Duration // the largest possible difference between the clocks of a trial's clients
}

// drawSlices draws the slices of trials with windows of the same length, from an instant on. Rounds come
// in pairs: the order of the trials is random in the first of a pair and the reverse in the second, so
// that a drift hits all trials alike. If the calls take too long for a pair, or the clocks are too far
// apart, each trial has its whole window in one piece. A client measures once all others of its trial
// send, and no trial sends before all clients of the one before have stopped, whatever their clocks show.
func drawSlices(random *rand.Rand, trials int, window time.Duration, of turnTimes, at int64) (all [][]load.Slice, end int64) {
	length := max(shortestSlice, callsPerSlice*of.mean, slicePerApart*of.apart)
	rounds := min(max(1, 2*int(window/(2*length))), load.MostSlices/2*2)
	lengths := make([]float64, rounds)
	sum := 0.0
	for i := range lengths {
		lengths[i] = 1 + slicesVary*(2*random.Float64()-1)
		sum += lengths[i]
	}
	rest := window
	all = make([][]load.Slice, trials)
	order := make([]int, trials)
	for round, share := range lengths {
		if round%2 == 0 {
			order = random.Perm(trials)
		} else {
			slices.Reverse(order)
		}
		measured := time.Duration(share / sum * float64(window))
		if round == rounds-1 {
			measured = rest // so that errors of rounding do not add up
		}
		rest -= measured
		runIn := max(shortestRunIn, callsPerRunIn*of.mean) + of.apart
		for _, i := range order {
			s := load.Slice{Send: at, From: at + int64(runIn), To: at + int64(runIn+measured)}
			all[i] = append(all[i], s)
			end = s.To
			at = end + int64(max(time.Millisecond, of.mean)+of.apart) // the last calls end
		}
	}
	return all, end
}

// fillPaces fills in the pace of each round of slices. Among few trials, one whose own pace changed must
// not look like a change of the machine. So the pace is the median of those of all trials and of 1: two
// trials must agree on the direction.
func fillPaces(block []*record.Record) {
	for round := 0; ; round++ {
		paces, took := []float64{1}, []*record.Slice(nil)
		for _, r := range block {
			if round < len(r.Slices) {
				took = append(took, &r.Slices[round])
				paces = append(paces, paceIn(r, r.Slices[round]))
			}
		}
		if len(took) < 2 {
			return
		}
		if pace := stats.Median(paces); pace > 0 && !math.IsInf(pace, 0) {
			for _, s := range took {
				s.Pace = pace
			}
		}
	}
}

// paceIn returns how fast a trial was in one of its slices, as a share of the mean of all its slices.
func paceIn(r *record.Record, s record.Slice) float64 {
	if r.Pacing == nil {
		return float64(s.Completed) / float64(s.TookNS) / (float64(r.Completed) / float64(r.WindowNS))
	}
	all := cmp.Or(r.Response, &r.Service)
	return float64(all.Sum) / float64(all.Count) / (float64(s.SumNS) / float64(s.Requests))
}

// startSentinel watches the CPUs of the placement. The sentinel has the workers' priority and a
// session of its own, so that it waits for a CPU whenever they would.
func (b *block) startSentinel() {
	at := b.lab.Placement
	if slices.ContainsFunc(b.trials, func(t *trial) bool { return catalog.SharesCPUs(t.planned.Cell) }) {
		at = at.Shared()
	}
	if b.lab.Unwatched || b.lab.Fleet != nil || len(at.Server) == 0 || len(at.Client) == 0 {
		return
	}
	var servers, clients []int
	for _, m := range b.joined {
		if m.server == nil {
			return
		}
		servers, clients = append(servers, host.ReadProcessTable().Family(m.server.PID())...), append(clients, m.client.PID())
	}
	in := host.StartOptions{CPUs: append(slices.Clone(at.Server), at.Client...), Nice: b.lab.Nice}
	b.sentinel = worker.StartSentinel(b.lab.Worker, in, watchList(at, servers, clients))
}
