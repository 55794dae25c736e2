package insight

import "strings"

// kindsOfCategories maps the built-in categories of CPU time to kinds of causes.
var kindsOfCategories = map[string]CauseKind{
	"page faults":                      ByFaults,
	"wake-ups and locks in the kernel": ByWaking,
	"network stack in the kernel":      ByPackets,
	"I/O wait":                         ByWaking,
	"memory copy":                      ByCopying,
	"system-call entry":                BySystemCalls,
	"garbage collection":               ByCollector,
	"allocation":                       ByAllocation,
	"growing goroutine stacks":         ByAllocation,
	"Go scheduler":                     ByWaking,
	"threads and locks":                ByWaking,
	"TLS":                              ByEncryption,
	"serialisation":                    ByEncoding,
	"protocol layer":                   ByProtocol,
	applicationCategory:                ByHandler,
}

// kindOfCategory returns the kind of a category of CPU time. The application runs at the server.
func kindOfCategory(category, end string) CauseKind {
	kind, known := kindsOfCategories[category]
	if !known || kind == ByHandler && end == ClientEnd {
		return other
	}
	return kind
}

const handlerStage = "handler"

// kindOfStage returns the kind and the end of a stage of a call. wait says that calls only wait in it, so
// that CPU time does not tell its length.
func kindOfStage(stage string) (kind CauseKind, end string, wait bool) {
	end, what, found := strings.Cut(stage, ": ")
	if !found {
		end, what = stageEnd(stage), stage
	}
	if end == handlerStage {
		end = ServerEnd
		if what == "wait" {
			return ByHandlerWait, end, true
		}
	}
	switch what {
	case "wait for lock":
		return ByLock, end, true
	case "wait for window":
		return ByWindow, end, true
	case "run queue":
		return ByRunQueue, end, true
	case "socket queue":
		return ByConnection, end, true
	case "no CPU":
		return ByNeighbour, end, true
	case "collector":
		return ByCollector, end, false
	case handlerStage:
		return ByHandler, end, false
	case "encode", "decode", "code":
		return ByProtocol, end, false
	}
	switch kindOf(stage) {
	case "waking", "scheduling":
		return ByWaking, end, false
	case "kernel":
		return ByPackets, end, false
	}
	return other, end, false
}
