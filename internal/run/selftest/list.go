package selftest

import (
	"regexp"
	"slices"
	"time"

	"wirelab.dev/internal/data/scenario"
)

// Select returns the situations whose names match a regular expression.
func Select(pattern *regexp.Regexp) []Situation {
	return slices.DeleteFunc(Situations(), func(s Situation) bool { return !pattern.MatchString(s.Name) })
}

// Situations returns all situations in the order in which the self-test stages them.
func Situations() []Situation {
	return slices.Concat(machineSituations(), workerSituations(), serverSituations(), networkSituations(), loadSituations(), heldOutSituations())
}

// Names of the checks that several situations expect to object.
var (
	checksOfOtherPrograms = []string{"gaps", "neighbours", "stopped"}
	checksOfQuota         = []string{"cpu-quota"}
	checksOfPause         = []string{"stopped", "gaps", "suspended"}
	checksOfAnswers       = []string{"errors", "answers"}
)

// openLoopCell has an open loop, in which a pause of a tenth of the window delays a tenth of the
// requests. In a closed loop, a pause would delay only one request of each client.
var openLoopCell = trialCell{clients: 16, load: constantRate(1000, trialWindow)}

// spinInBursts returns a player that keeps its CPU busy for the first 20 ms of every 200 ms.
func spinInBursts(c schedulingClass) player {
	return &spinPlayer{For: 20 * time.Millisecond, Every: 200 * time.Millisecond, Class: c}
}

func spinAlways(c schedulingClass) player { return &spinPlayer{For: time.Second, Class: c} }

// machineSituations returns situations in which other programs or the kernel disturb the trial.
func machineSituations() []Situation {
	return []Situation{
		{
			Name: "burner-server", Lie: "a process spins on the server's CPU at the server's priority", Twin: "the process spins there only when nothing else wants to run",
			Expect: checksOfOtherPrograms, needs: []requirement{needsLinux, needsRoot},
			lie: runOnCPUsOf(serverRole, workerNice, spinAlways(normalClass)), twin: runOnCPUsOf(serverRole, 0, spinAlways(idleClass)),
		},
		{
			Name: "burner-client", Lie: "a process spins on the clients' CPU at their priority", Twin: "the process spins there only when nothing else wants to run",
			Expect: checksOfOtherPrograms, needs: []requirement{needsLinux, needsRoot},
			lie: runOnCPUsOf(clientRole, workerNice, spinAlways(normalClass)), twin: runOnCPUsOf(clientRole, 0, spinAlways(idleClass)),
		},
		{
			Name: "bursts-server", Lie: "a real-time process takes the server's CPU for 20 ms in every 200", Twin: "the process runs only when nothing else wants to",
			Expect: checksOfOtherPrograms, needs: []requirement{needsLinux, needsRoot}, cell: openLoopCell,
			lie: runOnCPUsOf(serverRole, 0, spinInBursts(realTimeClass)), twin: runOnCPUsOf(serverRole, 0, spinInBursts(idleClass)),
		},
		{
			Name: "bursts-client", Lie: "a real-time process takes the clients' CPU for 20 ms in every 200", Twin: "the process runs only when nothing else wants to",
			Expect: checksOfOtherPrograms, needs: []requirement{needsLinux, needsRoot}, cell: openLoopCell,
			lie: runOnCPUsOf(clientRole, 0, spinInBursts(realTimeClass)), twin: runOnCPUsOf(clientRole, 0, spinInBursts(idleClass)),
		},
		{
			Name: "quota-client", Lie: "a control group grants the client 30 % of a CPU", Twin: "the group grants four CPUs",
			Expect: checksOfQuota, needs: []requirement{needsLinux, needsRoot, needsCPUQuota},
			lie: limitCPU(clientRole, 0.3), twin: limitCPU(clientRole, 4),
		},
		{
			Name: "quota-server", Lie: "a control group grants the server 30 % of a CPU", Twin: "the group grants four CPUs",
			Expect: checksOfQuota, needs: []requirement{needsLinux, needsRoot, needsCPUQuota},
			lie: limitCPU(serverRole, 0.3), twin: limitCPU(serverRole, 4),
		},
		{
			Name: "second-wirelab", Lie: "another wirelab measures on the same CPUs", Twin: "a process waits beside the trial",
			Expect: checksOfOtherPrograms, needs: []requirement{needsLinux},
			lie: runSecondLab, twin: runBystander,
		},
		{
			Name: "frequency", Lie: "the CPUs' highest frequency is halved in the window", Twin: "the frequency is set to the value that it already has",
			Expect: []string{"gaps"}, needs: []requirement{needsLinux, needsRoot, needsConsent, needsFrequency},
			lie: lowerFrequency(0.5), twin: lowerFrequency(1),
		},
		{
			Name: "clock-step", Lie: "the wall clock jumps ahead by an hour in the window, and back", Twin: "the clock is set to the time that it already shows",
			Expect: []string{"suspended", "gaps"}, needs: []requirement{needsLinux, needsRoot, needsConsent},
			lie: stepClockInWindow(time.Hour), twin: stepClockInWindow(0),
		},
		{
			Name: "clocks-apart", Lie: "the server's monotonic clock is an hour ahead of the client's (a time namespace)", Twin: "the server has a time namespace without an offset",
			Expect: []string{"the cost of the server is unknown"}, needs: []requirement{needsLinux, needsRoot},
			lie:  enterBeforeStart(serverRole, func(*Stage) error { return enterTimeNamespace(time.Hour) }),
			twin: enterBeforeStart(serverRole, func(*Stage) error { return enterTimeNamespace(0) }),
		},
		{
			Name: "paging", Lie: "the client's program is taken out of memory every 20 ms, and read from disk again", Twin: "the program stays in memory",
			Expect: []string{"faults"}, needs: []requirement{needsLinux, needsRoot},
			lie: pageOutClient(pageOut), twin: pageOutClient(func(int) error { return errNotSupported }),
		},
		{
			Name: "huge-pages", Lie: "both workers are denied huge pages", Twin: "both may use huge pages",
			Expect: []string{"runtime"}, needs: []requirement{needsLinux},
			lie: denyHugePages,
		},
		{
			Name: "slow-disk", Lie: "a process writes 16 MiB to the disk of the samples and syncs it, again and again", Twin: "the process writes 4 KiB per second",
			Expect: checksOfOtherPrograms, needs: []requirement{needsLinux}, cell: trialCell{samples: true},
			lie: keepDiskBusy(diskPlayer{Bytes: 16 << 20}), twin: keepDiskBusy(diskPlayer{Bytes: 4 << 10, Every: time.Second}),
		},
	}
}

// workerSituations returns situations in which something is wrong with a worker.
func workerSituations() []Situation {
	return []Situation{
		{
			Name: "shared-cpu", Lie: "the client runs on the server's CPU", Twin: "the client runs on its own CPU",
			Expect: []string{"affinity"}, needs: []requirement{needsLinux, needsSeparateCPUs},
			lie: startOnCPUsOf(clientRole, serverRole), twin: startOnCPUsOf(clientRole, clientRole),
		},
		{
			Name: "moved-client", Lie: "the client is moved to the server's CPU in the window", Twin: "the client is moved to the CPU that it already uses",
			Expect: []string{"affinity"}, needs: []requirement{needsLinux, needsSeparateCPUs},
			lie: moveInWindow(clientRole, serverRole), twin: moveInWindow(clientRole, clientRole),
		},
		{
			Name: "stopped-server", Lie: "the server is stopped for 50 ms in the window", Twin: "a process beside it is stopped",
			Expect: checksOfPause, needs: []requirement{needsLinux}, cell: openLoopCell,
			lie: pauseWorkers(50*time.Millisecond, serverRole), twin: pauseBystander(50 * time.Millisecond),
		},
		{
			Name: "stopped-client", Lie: "the client is stopped for 50 ms in the window", Twin: "a process beside it is stopped",
			Expect: checksOfPause, needs: []requirement{needsLinux}, cell: openLoopCell,
			lie: pauseWorkers(50*time.Millisecond, clientRole), twin: pauseBystander(50 * time.Millisecond),
		},
		{
			Name: "stopped-both", Lie: "both ends are stopped for 50 ms in the window, as when a machine is paused", Twin: "a process beside them is stopped",
			Expect: checksOfPause, needs: []requirement{needsLinux}, cell: openLoopCell,
			lie: pauseWorkers(50*time.Millisecond, serverRole, clientRole), twin: pauseBystander(50 * time.Millisecond),
		},
		{
			Name: "gogc-client", Lie: "the client's garbage collector runs whenever the heap grows by 2 % (GOGC=2)", Twin: "the collector runs as by default (GOGC=100)",
			Expect: []string{"generator-gc", "runtime"}, cell: trialCell{variant: "grpc", clients: 16},
			lie: setVariable(clientRole, "GOGC=2"), twin: setVariable(clientRole, "GOGC=100"),
		},
		{
			Name: "gogc-server", Lie: "the environment makes the server's garbage collector run whenever the heap grows by 2 %", Twin: "the collector runs as by default (GOGC=100)",
			Expect: []string{"runtime"}, cell: trialCell{variant: "grpc", clients: 16},
			lie: setVariable(serverRole, "GOGC=2"), twin: setVariable(serverRole, "GOGC=100"),
		},
		{
			Name: "memory-limit", Lie: "the client's memory limit is too low (GOMEMLIMIT=8MiB)", Twin: "the limit is ample (GOMEMLIMIT=1GiB)",
			Expect: []string{"generator-gc", "runtime"}, cell: trialCell{variant: "grpc", clients: 16, request: 16 << 10, response: 16 << 10},
			lie: setVariable(clientRole, "GOMEMLIMIT=8MiB"), twin: setVariable(clientRole, "GOMEMLIMIT=1GiB"),
		},
		{
			Name: "few-threads", Lie: "the client may use only one of its CPUs (GOMAXPROCS=1)", Twin: "the client may use all its CPUs",
			Expect: []string{"runtime"}, needs: []requirement{needsManyClientCPUs}, cell: trialCell{variant: "grpc", clients: 64},
			lie: setVariable(clientRole, "GOMAXPROCS=1"), twin: nil,
		},
		{
			Name: "many-threads", Lie: "the client runs 64 threads at a time on its CPUs (GOMAXPROCS=64)", Twin: "the client runs one thread per CPU",
			Expect: []string{"runtime"}, cell: trialCell{variant: "grpc", clients: 64},
			lie: setVariable(clientRole, "GOMAXPROCS=64"), twin: nil,
		},
	}
}

// serverSituations returns situations in which the server does not do the work that it should.
func serverSituations() []Situation {
	sleeping := "users:op=get-user,work=2ms"
	return []Situation{
		{
			Name: "answers-early", Lie: "the server reads only the id before it answers, with the data of an earlier request", Twin: "the server reads the whole request before it answers",
			Expect: checksOfAnswers, cell: trialCell{variant: "rest", request: 64 << 10, response: 64 << 10, clients: 1},
			lie: replaceServer(&earlyAnswerPlayer{Lie: true}), twin: replaceServer(&earlyAnswerPlayer{}),
		},
		{
			Name: "no-work", Lie: "the server leaves out the 2 ms of work that the workload asks for", Twin: "the server does the work",
			Expect: checksOfAnswers, cell: trialCell{workload: sleeping},
			lie:  replaceServer(&serverPlayer{Variant: "tcp", Workload: "users:op=get-user,work=0s"}),
			twin: replaceServer(&serverPlayer{Variant: "tcp", Workload: sleeping}),
		},
		{
			Name: "cache", Lie: "the server works for 1 ms per call in its first 900 ms, and then answers from a cache", Twin: "the server works for 1 ms per call to the end",
			Expect: []string{"course", "settled"}, cell: trialCell{load: closedLoopFor(1200 * time.Millisecond)},
			lie: replaceServerWithEcho(serverPlayer{Work: time.Millisecond, WorkFor: 900 * time.Millisecond}), twin: replaceServerWithEcho(serverPlayer{Work: time.Millisecond}),
		},
		{
			Name: "warming-server", Lie: "the server needs two seconds to get up to speed, longer than the warm-up", Twin: "the server is up to speed at once",
			Expect: []string{"course", "settled"}, cell: trialCell{load: closedLoopFor(1200 * time.Millisecond)},
			// Go's timers fire at whole milliseconds, so with less Work there would be no ramp.
			lie: replaceServerWithEcho(serverPlayer{Work: 5 * time.Millisecond, RampFor: 2 * time.Second}), twin: replaceServerWithEcho(serverPlayer{Work: 5 * time.Millisecond}),
		},
		{
			Name: "half-errors", Lie: "every second call fails at once", Twin: "no call fails",
			Expect: []string{"errors"},
			lie:    replaceServerWithEcho(serverPlayer{Work: time.Millisecond, FailEvery: 2}), twin: replaceServerWithEcho(serverPlayer{Work: time.Millisecond}),
		},
		{
			Name: "few-errors", Lie: "one call in 150 fails at once", Twin: "no call fails",
			Expect: []string{"errors"},
			lie:    replaceServerWithEcho(serverPlayer{Work: time.Millisecond, FailEvery: 150}), twin: replaceServerWithEcho(serverPlayer{Work: time.Millisecond}),
		},
		{
			Name: "wrong-bytes", Lie: "one answer in 20 differs in a bit", Twin: "all answers are right",
			Expect: checksOfAnswers,
			lie:    replaceServerWithEcho(serverPlayer{SpoilEvery: 20}), twin: replaceServerWithEcho(serverPlayer{}),
		},
		{
			Name: "short-answers", Lie: "one answer in 20 is a byte short", Twin: "all answers are whole",
			Expect: checksOfAnswers,
			lie:    replaceServerWithEcho(serverPlayer{CutEvery: 20}), twin: replaceServerWithEcho(serverPlayer{}),
		},
	}
}

// networkSituations returns situations with a disturbed network between client and server.
func networkSituations() []Situation {
	return []Situation{
		{
			Name: "reset", Lie: "the connections are reset in the window, and opened again", Twin: "the connections are kept",
			Expect: []string{"connections", "errors"}, cell: trialCell{variant: "grpc"},
			lie: putProxyBetween(proxyPlayer{ResetAfter: 500 * time.Millisecond}), twin: putProxyBetween(proxyPlayer{}),
		},
		{
			Name: "reset-rest", Lie: "the connections of a pool are reset in the window, and opened again", Twin: "the connections are kept",
			Expect: []string{"connections", "errors"}, cell: trialCell{variant: "rest"},
			lie: putProxyBetween(proxyPlayer{ResetAfter: 500 * time.Millisecond}), twin: putProxyBetween(proxyPlayer{}),
		},
		{
			Name: "small-window", Lie: "the proxy before the server has a receive buffer of 2 KiB, for requests of 256 KiB", Twin: "the buffer has the kernel's default size",
			Expect: []string{"path"}, needs: []requirement{needsLinux}, cell: trialCell{request: 256 << 10, response: 64},
			lie: putProxyBetween(proxyPlayer{ReceiveBytes: 2 << 10}), twin: putProxyBetween(proxyPlayer{}),
		},
		{
			Name: "delayed-ack", Lie: "answers come in two segments, and the second waits for a delayed acknowledgement of the first", Twin: "each answer comes in one segment",
			Expect: []string{"path"}, needs: []requirement{needsLinux},
			lie: putProxyBetween(proxyPlayer{Split: true}), twin: putProxyBetween(proxyPlayer{}),
		},
		{
			Name: "slow-names", Lie: "each connection asks a name server that takes 20 ms", Twin: "the name server answers at once",
			Expect: []string{"path"}, needs: []requirement{needsLinux, needsRoot}, cell: trialCell{variant: "tcp", connection: scenario.New},
			lie: useNameServer(20 * time.Millisecond), twin: useNameServer(0),
		},
		{
			Name: "no-ports", Lie: "a naive client runs out of its 200 ports", Twin: "a client with many addresses has enough ports",
			Expect: []string{"limits", "errors"}, needs: []requirement{needsLinux, needsNetworks},
			cell: trialCell{connection: scenario.New, network: scenario.Network{Ports: 200}, load: scenario.Load{Model: scenario.Closed, Total: 1000}, cold: true},
			lie:  measureVariant("tcp:client=naive"),
		},
	}
}

// loadSituations returns situations with a load that differs from the load that the user expects.
func loadSituations() []Situation {
	// The stack fake keeps its delay exactly: five parallel calls of 5 ms give 1,000 per second.
	const capacity = "fake:delay=5ms,parallel=5"
	return []Situation{
		{
			Name: "overload", Lie: "1,040 calls per second are offered to a server that can do 1,000", Twin: "900 calls per second are offered",
			Expect: []string{"schedule", "overload"}, cell: trialCell{variant: capacity, clients: 100, load: constantRate(900, time.Second)},
			lie: offerRate(1040),
		},
		{
			Name: "overload-much", Lie: "2,000 calls per second are offered to a server that can do 1,000", Twin: "900 calls per second are offered",
			Expect: []string{"schedule", "overload"}, cell: trialCell{variant: capacity, clients: 100, load: constantRate(900, time.Second)},
			lie: offerRate(2000),
		},
		{
			Name: "few-clients", Lie: "four clients must make 900 calls per second, at 5 ms per call", Twin: "a hundred clients make these calls",
			Expect: []string{"schedule", "overload"}, cell: trialCell{variant: capacity, clients: 100, load: constantRate(900, time.Second)},
			lie: useClients(4),
		},
		{
			Name: "no-stack", Lie: "the client answers its own calls at once, so that only the load engine is measured", Twin: "a server answers",
			Expect: []string{"generator-bound"},
			lie:    measureVariant("fake"),
		},
	}
}

// heldOutSituations returns situations that were added after all checks were complete. They show
// how many unknown disturbances the checks miss.
func heldOutSituations() []Situation {
	return []Situation{
		{
			Name: "wordy-server", Lie: "the environment makes the server log every frame (GODEBUG=http2debug=2)", Twin: "the server logs no frame",
			Expect: []string{"runtime"}, cell: trialCell{variant: "h2", clients: 16},
			lie: setVariable(serverRole, "GODEBUG=http2debug=2"),
		},
		{
			Name: "slow-reader", Lie: "a proxy between the ends sends answers of 256 KiB through a buffer of 4 KiB", Twin: "the proxy has the kernel's default buffer",
			Expect: []string{"path"}, needs: []requirement{needsLinux}, cell: trialCell{request: 64, response: 256 << 10},
			lie: putProxyBetween(proxyPlayer{SendBytes: 4 << 10}), twin: putProxyBetween(proxyPlayer{}),
		},
		{
			Name: "batches", Lie: "a proxy between the ends forwards answers only every 10 ms", Twin: "the proxy forwards answers at once",
			Expect: []string{"path", "course"},
			lie:    putProxyBetween(proxyPlayer{Hold: 10 * time.Millisecond}), twin: putProxyBetween(proxyPlayer{}),
		},
		{
			Name: "cold-caches", Lie: "a process walks through 64 MiB on the server's CPU whenever nothing else wants to run", Twin: "the process spins there without using memory",
			Expect: checksOfOtherPrograms, needs: []requirement{needsLinux, needsRoot}, cell: trialCell{request: 16 << 10, response: 16 << 10},
			lie:  runOnCPUsOf(serverRole, 0, &spinPlayer{For: time.Second, Class: idleClass, WalkBytes: 64 << 20}),
			twin: runOnCPUsOf(serverRole, 0, spinAlways(idleClass)),
		},
		{
			Name: "two-servers", Lie: "every second call goes to a server that takes 2 ms more", Twin: "no call does",
			Expect: []string{"groups", "course"},
			lie:    replaceServerWithEcho(serverPlayer{Work: 2 * time.Millisecond, WorkEvery: 2}), twin: replaceServerWithEcho(serverPlayer{}),
		},
	}
}
