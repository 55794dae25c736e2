package insight

// A CauseKind names what makes calls slow. A lever is chosen by the kinds that it acts on.
type CauseKind string

// The kinds of causes.
const (
	ByCollector   CauseKind = "collector"        // the garbage collector: its own work, assists, stops
	ByAllocation  CauseKind = "allocation"       // allocating and clearing memory
	ByFaults      CauseKind = "page-faults"      // pages that the kernel had to provide first
	ByCopying     CauseKind = "copying"          // copying memory in user space
	ByEncoding    CauseKind = "encoding"         // encoding and decoding messages
	ByProtocol    CauseKind = "protocol"         // the library's own code for the wire
	ByHandshake   CauseKind = "handshake"        // new connections: TCP and TLS handshakes, signatures
	ByEncryption  CauseKind = "encryption"       // encrypting and decrypting
	BySystemCalls CauseKind = "system-calls"     // entering the kernel often
	ByPackets     CauseKind = "packets"          // the kernel's network stack
	ByLink        CauseKind = "link"             // delay, loss or rate of the link
	ByWaking      CauseKind = "waking"           // waking threads and switching between them
	ByRunQueue    CauseKind = "run-queue"        // more work than CPUs: calls wait for a CPU
	BySharedCPU   CauseKind = "shared-cpu"       // client and server share CPUs
	ByNeighbour   CauseKind = "neighbour"        // other programs take the CPUs
	ByHandler     CauseKind = "handler"          // the service computes
	ByBackground  CauseKind = "background"       // goroutines of the service compute that run no handler
	ByHandlerWait CauseKind = "handler-wait"     // the service waits: for a timer, a channel, another service
	ByLock        CauseKind = "lock"             // waiting for a lock
	ByWindow      CauseKind = "window"           // waiting for a flow-control window
	ByLimit       CauseKind = "limit"            // waiting for a limit of calls in progress
	ByHeadOfLine  CauseKind = "head-of-line"     // waiting behind other calls on the same connection
	ByConnection  CauseKind = "connection"       // one connection's reader or writer is the limit
	ByProcesses   CauseKind = "processes"        // starting other processes
	ByQuota       CauseKind = "quota"            // a limit of CPU time, or a low priority
	ByAcks        CauseKind = "acknowledgements" // waiting until the other end acknowledges the packet before
)

// CauseKinds lists all kinds.
var CauseKinds = []CauseKind{
	ByCollector, ByAllocation, ByFaults, ByCopying, ByEncoding, ByProtocol, ByHandshake, ByEncryption, BySystemCalls, ByPackets, ByLink,
	ByWaking, ByRunQueue, BySharedCPU, ByNeighbour, ByHandler, ByBackground, ByHandlerWait, ByLock, ByWindow, ByLimit, ByHeadOfLine, ByConnection, ByProcesses, ByQuota, ByAcks,
}

// A Cause explains a part of a cell's time, or of the difference between two cells.
type Cause struct {
	Kind   CauseKind `json:"kind"`
	End    string    `json:"end,omitempty"` // client or server; empty if both ends or none
	Time   float64   `json:"us"`            // microseconds per call that it explains; it has the sign of the difference
	Client float64   `json:"client_us"`     // part of Time at the client
	Server float64   `json:"server_us"`     // part of Time at the server; the rest belongs to no end
	// Error is the standard error of Time.
	Error float64 `json:"error_us"`
	Share float64 `json:"share"` // Time divided by the time or the difference that is explained
	// Because holds the settings and counts behind the cause, as a clause of a sentence.
	Because string `json:"because,omitempty"`
}

// other is the kind of CPU time that no cause names.
const other CauseKind = "other"

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
	backgroundCategory:                 ByBackground,
}

// kindOfCategory returns the kind of a category of CPU time. The application runs at the server.
func kindOfCategory(category, end string) CauseKind {
	kind, known := kindsOfCategories[category]
	if !known || (kind == ByHandler || kind == ByBackground) && end == ClientEnd {
		return other
	}
	return kind
}
