package insight

import "strings"

// The ends of a wire.
const (
	ClientEnd = "client"
	ServerEnd = "server"
)

// kindOf returns the kind of a stage. Package life sets the names of stages.
func kindOf(stage string) string {
	what := stageWithoutEnd(stage)
	switch {
	case stage == "handler":
		return "handler"
	case strings.HasPrefix(what, "wake "):
		return "waking"
	case what == "schedule", what == "run queue", what == "no CPU":
		return "scheduling"
	case what == "collector":
		return "collector"
	case strings.HasPrefix(what, "wait"), what == "socket queue", what == "other calls":
		return "waiting"
	case strings.HasPrefix(what, "send "), strings.HasPrefix(what, "receive "), strings.HasPrefix(what, "transfer "):
		return "kernel"
	case strings.HasSuffix(what, "code"):
		return "user"
	}
	return "mixed"
}

// stageWithoutEnd returns the name of a stage without the end before its colon.
func stageWithoutEnd(stage string) string {
	if _, what, found := strings.Cut(stage, ": "); found {
		return what
	}
	return stage
}

// stageEnd returns the end of the wire at which a stage takes place, or "" for both.
func stageEnd(stage string) string {
	switch {
	case strings.HasPrefix(stage, "client: "), stage == "send request", stage == "wake client", stage == "receive answer":
		return ClientEnd
	case strings.HasPrefix(stage, "server: "), stage == "send answer", stage == "wake server", stage == "receive request", strings.HasPrefix(stage, "handler"):
		return ServerEnd
	}
	return ""
}

// stageCause returns the cause of a stage's time, and the end where the time is spent. The kind is
// empty if the stage's name does not tell the cause.
func stageCause(stage string) (CauseKind, string) {
	return stageCauseKind(stage), stageEnd(stage)
}

func stageCauseKind(stage string) CauseKind {
	what := stageWithoutEnd(stage)
	switch {
	case stage == "handler":
		return ByHandler
	case stage == "handler: wait":
		return ByHandlerWait
	case strings.HasPrefix(what, "wake "), what == "schedule":
		return ByWaking
	case kindOf(stage) == "kernel":
		return ByPackets
	}
	return map[string]CauseKind{
		"encode": ByProtocol, "decode": ByProtocol, "collector": ByCollector,
		"run queue": ByRunQueue, "no CPU": ByNeighbour,
		"wait for lock": ByLock, "wait for window": ByWindow, "socket queue": ByConnection, "other calls": ByHeadOfLine,
	}[what]
}
