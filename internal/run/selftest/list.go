package selftest

import (
	"regexp"
	"slices"
	"time"

	"wirelab.dev/internal/data/scenario"
)

// Select returns the situations whose names match.
func Select(pattern *regexp.Regexp) []Situation {
	return slices.DeleteFunc(Situations(), func(s Situation) bool { return !pattern.MatchString(s.Name) })
}

// Situations returns all situations, in the order in which they are staged.
func Situations() []Situation {
	return slices.Concat(ofTheMachine(), ofTheWorkers(), ofTheServer(), ofTheNetwork(), ofTheLoad(), heldOut())
}

// Names of checks that several situations expect.
var (
	byOthers = []string{"gaps", "neighbours", "noise", "paused", "stopped"}
	byQuota  = []string{"cpu-quota"}
	byPause  = []string{"stopped", "paused", "gaps", "suspended"}
	byAnswer = []string{"errors", "answers"}
)

// scheduled is an open loop. A pause of a tenth of the window delays a tenth of its requests; in
// a closed loop it would delay only one request per client.
var scheduled = cell{clients: 16, load: constantRate(1000, window)}

// burst spins for 20 ms in every 200 ms: ten periods of a scheduler that shares evenly.
func burst(c class) player {
	return &spin{For: 20 * time.Millisecond, Every: 200 * time.Millisecond, Class: c}
}

func always(c class) player { return &spin{For: time.Second, Class: c} }

// ofTheMachine returns situations that other programs or the kernel cause.
func ofTheMachine() []Situation {
	return []Situation{
		{
			Name: "burner-server", Lie: "a process spins on the server's CPU at the server's priority", Twin: "it spins there only when nothing else wants to run",
			Expect: byOthers, needs: []need{linux, root},
			lie: beside(server, asWorkers, always(usual)), twin: beside(server, 0, always(idling)),
		},
		{
			Name: "burner-client", Lie: "a process spins on the clients' CPU at their priority", Twin: "it spins there only when nothing else wants to run",
			Expect: byOthers, needs: []need{linux, root},
			lie: beside(client, asWorkers, always(usual)), twin: beside(client, 0, always(idling)),
		},
		{
			Name: "bursts-server", Lie: "a real-time process takes the server's CPU for 20 ms in every 200", Twin: "it runs only when nothing else wants to",
			Expect: byOthers, needs: []need{linux, root}, cell: scheduled,
			lie: beside(server, 0, burst(realTime)), twin: beside(server, 0, burst(idling)),
		},
		{
			Name: "bursts-client", Lie: "a real-time process takes the clients' CPU for 20 ms in every 200", Twin: "it runs only when nothing else wants to",
			Expect: byOthers, needs: []need{linux, root}, cell: scheduled,
			lie: beside(client, 0, burst(realTime)), twin: beside(client, 0, burst(idling)),
		},
		{
			Name: "quota-client", Lie: "a control group grants the client 30 % of a CPU", Twin: "it grants four CPUs",
			Expect: byQuota, needs: []need{linux, root, quotas},
			lie: quota(client, 0.3), twin: quota(client, 4),
		},
		{
			Name: "quota-server", Lie: "a control group grants the server 30 % of a CPU", Twin: "it grants four CPUs",
			Expect: byQuota, needs: []need{linux, root, quotas},
			lie: quota(server, 0.3), twin: quota(server, 4),
		},
		{
			Name: "second-wirelab", Lie: "another wirelab measures on the same CPUs", Twin: "a process waits beside the trial",
			Expect: byOthers, needs: []need{linux},
			lie: secondLab, twin: bystander,
		},
		{
			Name: "frequency", Lie: "the CPUs' highest frequency is halved in the window", Twin: "it is set to what it is",
			Expect: []string{"gaps", "noise"}, needs: []need{linux, root, consent, frequencies},
			lie: throttled(0.5), twin: throttled(1),
		},
		{
			Name: "clock-step", Lie: "the wall clock jumps ahead by an hour in the window, and back", Twin: "it is set to what it is",
			Expect: []string{"suspended", "paused"}, needs: []need{linux, root, consent},
			lie: clockStepped(time.Hour), twin: clockStepped(0),
		},
		{
			Name: "clocks-apart", Lie: "the server's monotonic clock is an hour ahead of the client's (a time namespace)", Twin: "it is not ahead in its namespace",
			Expect: []string{"the cost of the server is unknown"}, needs: []need{linux, root},
			lie:  entered(server, func(*Stage) error { return enterOtherTime(time.Hour) }),
			twin: entered(server, func(*Stage) error { return enterOtherTime(0) }),
		},
		{
			Name: "paging", Lie: "the client's program is taken out of memory every 20 ms, and read from disk again", Twin: "it is left in memory",
			Expect: []string{"faults"}, needs: []need{linux, root},
			lie: pagedOut(pageOut), twin: pagedOut(func(int) error { return errNotHere }),
		},
		{
			Name: "huge-pages", Lie: "both workers are denied huge pages", Twin: "they are not",
			Expect: []string{"runtime"}, needs: []need{linux},
			lie: hugePagesOff,
		},
		{
			Name: "slow-disk", Lie: "a process writes 16 MiB to the disk of the samples and syncs it, again and again", Twin: "it writes 4 KiB per second",
			Expect: byOthers, needs: []need{linux}, cell: cell{samples: true},
			lie: diskKept(disk{Bytes: 16 << 20}), twin: diskKept(disk{Bytes: 4 << 10, Every: time.Second}),
		},
	}
}

// ofTheWorkers returns situations in which a worker does not run as it should.
func ofTheWorkers() []Situation {
	return []Situation{
		{
			Name: "shared-cpu", Lie: "the client runs on the server's CPU", Twin: "it runs on its own",
			Expect: []string{"affinity"}, needs: []need{linux, cpusApart},
			lie: onCPUsOf(client, server), twin: onCPUsOf(client, client),
		},
		{
			Name: "moved-client", Lie: "somebody moves the client to the server's CPU in the window", Twin: "they move it to the CPU that it has",
			Expect: []string{"affinity"}, needs: []need{linux, cpusApart},
			lie: movedTo(client, server), twin: movedTo(client, client),
		},
		{
			Name: "stopped-server", Lie: "the server is stopped for 50 ms in the window", Twin: "a process beside it is stopped",
			Expect: byPause, needs: []need{linux}, cell: scheduled,
			lie: paused(50*time.Millisecond, server), twin: bystanderPaused(50 * time.Millisecond),
		},
		{
			Name: "stopped-client", Lie: "the client is stopped for 50 ms in the window", Twin: "a process beside it is stopped",
			Expect: byPause, needs: []need{linux}, cell: scheduled,
			lie: paused(50*time.Millisecond, client), twin: bystanderPaused(50 * time.Millisecond),
		},
		{
			Name: "stopped-both", Lie: "both ends are stopped for 50 ms in the window, as a paused machine is", Twin: "a process beside them is stopped",
			Expect: byPause, needs: []need{linux}, cell: scheduled,
			lie: paused(50*time.Millisecond, server, client), twin: bystanderPaused(50 * time.Millisecond),
		},
		{
			Name: "gogc-client", Lie: "the client's garbage collector runs at every 2 % of growth (GOGC=2)", Twin: "it runs as it does by default (GOGC=100)",
			Expect: []string{"generator-gc", "runtime"}, cell: cell{variant: "grpc", clients: 16},
			lie: environment(client, "GOGC=2"), twin: environment(client, "GOGC=100"),
		},
		{
			Name: "gogc-server", Lie: "the server's garbage collector runs at every 2 % of growth, because the environment says so", Twin: "it runs as it does by default (GOGC=100)",
			Expect: []string{"runtime"}, cell: cell{variant: "grpc", clients: 16},
			lie: environment(server, "GOGC=2"), twin: environment(server, "GOGC=100"),
		},
		{
			Name: "memory-limit", Lie: "the client's memory limit is below what it needs (GOMEMLIMIT=8MiB)", Twin: "it is far above (GOMEMLIMIT=1GiB)",
			Expect: []string{"generator-gc", "runtime"}, cell: cell{variant: "grpc", clients: 16, request: 16 << 10, response: 16 << 10},
			lie: environment(client, "GOMEMLIMIT=8MiB"), twin: environment(client, "GOMEMLIMIT=1GiB"),
		},
		{
			Name: "few-threads", Lie: "the client may use one of its CPUs only (GOMAXPROCS=1)", Twin: "it may use all",
			Expect: []string{"runtime"}, needs: []need{manyClientCPUs}, cell: cell{variant: "grpc", clients: 64},
			lie: environment(client, "GOMAXPROCS=1"), twin: nil,
		},
		{
			Name: "many-threads", Lie: "the client runs 64 threads at a time on its CPUs (GOMAXPROCS=64)", Twin: "it runs one per CPU",
			Expect: []string{"runtime"}, cell: cell{variant: "grpc", clients: 64},
			lie: environment(client, "GOMAXPROCS=64"), twin: nil,
		},
	}
}

// ofTheServer returns situations in which the server does other work than the measured one.
func ofTheServer() []Situation {
	sleeping := "users:op=get-user,work=2ms"
	return []Situation{
		{
			Name: "answers-early", Lie: "the server answers when it has read the id, with the data of an earlier request", Twin: "it answers when it has read all",
			Expect: byAnswer, cell: cell{variant: "rest", request: 64 << 10, response: 64 << 10, clients: 1},
			lie: served(&early{Lie: true}), twin: served(&early{}),
		},
		{
			Name: "no-work", Lie: "the server leaves out the 2 ms of work that the workload asks for", Twin: "it does the work",
			Expect: byAnswer, cell: cell{workload: sleeping},
			lie:  served(&serve{Variant: "tcp", Workload: "users:op=get-user,work=0s"}),
			twin: served(&serve{Variant: "tcp", Workload: sleeping}),
		},
		{
			Name: "cache", Lie: "the server works for 1 ms per call in its first 900 ms, and then answers from a cache", Twin: "it works for 1 ms to the end",
			Expect: []string{"course", "settled"}, cell: cell{load: closedFor(1200 * time.Millisecond)},
			lie: servedEcho(serve{Work: time.Millisecond, WorkFor: 900 * time.Millisecond}), twin: servedEcho(serve{Work: time.Millisecond}),
		},
		{
			Name: "warming-server", Lie: "the server needs two seconds to get up to speed, longer than the warm-up", Twin: "it is up to speed",
			Expect: []string{"course", "settled"}, cell: cell{load: closedFor(1200 * time.Millisecond)},
			// Go's timers wake at whole milliseconds: with fewer there would be no ramp.
			lie: servedEcho(serve{Work: 5 * time.Millisecond, RampFor: 2 * time.Second}), twin: servedEcho(serve{Work: 5 * time.Millisecond}),
		},
		{
			Name: "half-errors", Lie: "every second call fails at once", Twin: "none fails",
			Expect: []string{"errors"},
			lie:    servedEcho(serve{Work: time.Millisecond, FailEvery: 2}), twin: servedEcho(serve{Work: time.Millisecond}),
		},
		{
			Name: "few-errors", Lie: "one call in 150 fails at once", Twin: "none fails",
			Expect: []string{"errors"},
			lie:    servedEcho(serve{Work: time.Millisecond, FailEvery: 150}), twin: servedEcho(serve{Work: time.Millisecond}),
		},
		{
			Name: "wrong-bytes", Lie: "one answer in 20 differs in a bit", Twin: "all are right",
			Expect: byAnswer,
			lie:    servedEcho(serve{SpoilEvery: 20}), twin: servedEcho(serve{}),
		},
		{
			Name: "short-answers", Lie: "one answer in 20 is a byte short", Twin: "all are whole",
			Expect: byAnswer,
			lie:    servedEcho(serve{CutEvery: 20}), twin: servedEcho(serve{}),
		},
	}
}

// ofTheNetwork returns situations between the two ends.
func ofTheNetwork() []Situation {
	return []Situation{
		{
			Name: "reset", Lie: "the connections are reset in the window, and opened again", Twin: "they are kept",
			Expect: []string{"connections", "errors"}, cell: cell{variant: "grpc"},
			lie: through(proxy{ResetAfter: 500 * time.Millisecond}), twin: through(proxy{}),
		},
		{
			Name: "reset-rest", Lie: "the connections of a pool are reset in the window, and opened again", Twin: "they are kept",
			Expect: []string{"connections", "errors"}, cell: cell{variant: "rest"},
			lie: through(proxy{ResetAfter: 500 * time.Millisecond}), twin: through(proxy{}),
		},
		{
			Name: "small-window", Lie: "the receive buffer before the server has 2 KiB, for requests of 256 KiB", Twin: "it has what the kernel gives it",
			Expect: []string{"path"}, needs: []need{linux}, cell: cell{request: 256 << 10, response: 64},
			lie: through(proxy{ReceiveBytes: 2 << 10}), twin: through(proxy{}),
		},
		{
			Name: "delayed-ack", Lie: "answers come in two segments, and the second waits for a delayed acknowledgement of the first", Twin: "they come in one",
			Expect: []string{"path"}, needs: []need{linux},
			lie: through(proxy{Split: true}), twin: through(proxy{}),
		},
		{
			Name: "slow-names", Lie: "each connection asks a name server that takes 20 ms", Twin: "it answers at once",
			Expect: []string{"path"}, needs: []need{linux, root}, cell: cell{variant: "tcp", connection: scenario.New},
			lie: named(20 * time.Millisecond), twin: named(0),
		},
		{
			Name: "no-ports", Lie: "a naive client runs out of its 200 ports", Twin: "a client with many addresses does not",
			Expect: []string{"limits", "errors"}, needs: []need{linux, ownNetworks},
			cell: cell{connection: scenario.New, network: scenario.Network{Ports: 200}, load: scenario.Load{Model: scenario.Closed, Total: 1000}, cold: true},
			lie:  variant("tcp:client=naive"),
		},
	}
}

// ofTheLoad returns situations in which the load is not what it claims to be.
func ofTheLoad() []Situation {
	// fake takes its delay exactly: five calls at a time, of 5 ms each, make 1,000 per second.
	const capacity = "fake:delay=5ms,parallel=5"
	return []Situation{
		{
			Name: "overload", Lie: "1,040 calls per second are offered to a server that can do 1,000", Twin: "900 are",
			Expect: []string{"schedule", "overload"}, cell: cell{variant: capacity, clients: 100, load: constantRate(900, time.Second)},
			lie: offered(1040),
		},
		{
			Name: "overload-much", Lie: "2,000 calls per second are offered to a server that can do 1,000", Twin: "900 are",
			Expect: []string{"schedule", "overload"}, cell: cell{variant: capacity, clients: 100, load: constantRate(900, time.Second)},
			lie: offered(2000),
		},
		{
			Name: "few-clients", Lie: "900 calls per second are offered to four clients of 5 ms per call", Twin: "a hundred clients make them",
			Expect: []string{"schedule", "overload"}, cell: cell{variant: capacity, clients: 100, load: constantRate(900, time.Second)},
			lie: clients(4),
		},
		{
			Name: "no-stack", Lie: "the client answers itself at once, so that the figure is the load engine's", Twin: "a server answers",
			Expect: []string{"generator-bound"},
			lie:    variant("fake"),
		},
	}
}

// heldOut returns situations that were staged only after all checks had been written. Those that
// go unnoticed show how much else may go unnoticed.
func heldOut() []Situation {
	return []Situation{
		{
			Name: "wordy-server", Lie: "the server's environment has it log every frame (GODEBUG=http2debug=2)", Twin: "it logs none",
			Expect: []string{"runtime"}, cell: cell{variant: "h2", clients: 16},
			lie: environment(server, "GODEBUG=http2debug=2"),
		},
		{
			Name: "slow-reader", Lie: "what is between the ends sends answers of 256 KiB through a buffer of 4 KiB", Twin: "its buffer is the kernel's",
			Expect: []string{"path"}, needs: []need{linux}, cell: cell{request: 64, response: 256 << 10},
			lie: through(proxy{SendBytes: 4 << 10}), twin: through(proxy{}),
		},
		{
			Name: "batches", Lie: "what is between the ends passes answers on only every 10 ms", Twin: "it passes them on at once",
			Expect: []string{"path", "course"},
			lie:    through(proxy{Hold: 10 * time.Millisecond}), twin: through(proxy{}),
		},
		{
			Name: "cold-caches", Lie: "a process walks through 64 MiB on the server's CPU whenever nothing else wants to run", Twin: "it spins there without memory",
			Expect: byOthers, needs: []need{linux, root}, cell: cell{request: 16 << 10, response: 16 << 10},
			lie:  beside(server, 0, &spin{For: time.Second, Class: idling, WalkBytes: 64 << 20}),
			twin: beside(server, 0, always(idling)),
		},
		{
			Name: "two-servers", Lie: "every second call goes to a server that takes 2 ms more", Twin: "none does",
			Expect: []string{"groups", "course"},
			lie:    servedEcho(serve{Work: 2 * time.Millisecond, WorkEvery: 2}), twin: servedEcho(serve{}),
		},
	}
}
