package insight

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
