package insight

import "strings"

// kindOf returns the kind of a stage. Package life sets the names of stages.
func kindOf(stage string) string {
	what := stageWithoutEnd(stage)
	switch {
	case stage == handlerStage, what == "runs":
		return "handler"
	case strings.HasPrefix(what, "wake "):
		return "waking"
	case what == "schedule", what == "run queue", what == "no CPU":
		return "scheduling"
	case what == "collector":
		return "collector"
	case strings.HasPrefix(what, "wait"), what == "socket queue", what == "other calls", what == "waits":
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
	case strings.HasPrefix(stage, "server: "), stage == "send answer", stage == "wake server", stage == "receive request", strings.HasPrefix(stage, handlerStage), strings.HasPrefix(stage, "service: "):
		return ServerEnd
	}
	return ""
}

const handlerStage = "handler"

// kindOfStage returns the kind and the end of a stage of a call. wait says that calls only wait in it, so
// that CPU time does not tell its length.
func kindOfStage(stage string) (kind CauseKind, end string, wait bool) {
	end = stageEnd(stage)
	switch kindOf(stage) {
	case "handler":
		return ByHandler, end, false
	case "kernel":
		return ByPackets, end, false
	case "waking":
		return ByWaking, end, false
	case "user":
		return ByProtocol, end, false
	case "collector":
		return ByCollector, end, false
	}
	switch what := stageWithoutEnd(stage); {
	case stage == "handler: wait", stage == "service: waits":
		return ByHandlerWait, end, true
	case what == "schedule":
		return ByWaking, end, false
	default:
		kind, wait = map[string]CauseKind{
			"run queue": ByRunQueue, "no CPU": ByNeighbour, "wait for lock": ByLock, "wait for window": ByWindow,
			"socket queue": ByConnection, "other calls": ByHeadOfLine,
		}[what]
		if !wait {
			kind = other
		}
		return kind, end, wait
	}
}
