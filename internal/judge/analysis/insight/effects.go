package insight

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/base/pattern"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// A change is a setting that differs between two cells, or a setting of one cell alone. An empty value
// means that the cell does not have the setting.
type change struct{ key, a, b string }

// Keys of a cell's properties that are not options.
const (
	sharingSetting = "connections"
	clientsSetting = "clients"
	sizeSetting    = "size"
	// Of a user's service.
	syscallsSetting = "system calls"
	processSetting  = "processes"
	connectSetting  = "connects"
)

// countedSettings lists the settings that are counts or conditions of a cell, and have no name that a user could write.
var countedSettings = []string{sharingSetting, clientsSetting, sizeSetting, syscallsSetting, processSetting, connectSetting}

// changesBetween lists the settings in which two cells differ, or those of one cell.
func changesBetween(a, b *Insight) []change {
	value := func(of []CellOption, key string) string {
		i := slices.IndexFunc(of, func(s CellOption) bool { return s.Key == key })
		if i < 0 {
			return ""
		}
		return of[i].Value
	}
	var all []change
	var before []CellOption
	if a != nil {
		before = a.Settings
	}
	sameStack := a == nil || a.Cell().Stack == b.Cell().Stack
	for _, s := range slices.Concat(b.Settings, before) {
		c := change{s.Key, value(before, s.Key), value(b.Settings, s.Key)}
		known := effects[s.Key]
		if cmp.Or(c.a, known.usual) != cmp.Or(c.b, known.usual) && !slices.Contains(all, c) && (sameStack || !known.ofStack) {
			all = append(all, c)
		}
	}
	if a == nil {
		return all
	}
	if from, to := a.Facts.Connections, b.Facts.Connections; sameStack && from != nil && to != nil && *from != *to && a.Clients == b.Clients {
		all = append(all, change{sharingSetting, units.Number(*from), units.Number(*to)})
	}
	if a.Clients != b.Clients {
		all = append(all, change{clientsSetting, fmt.Sprint(a.Clients), fmt.Sprint(b.Clients)})
	}
	if a.Payload != b.Payload {
		size := func(p record.Payload) string {
			return p.Text(func(bytes int) string { return units.Bytes(bytes, " ") }, " → ")
		}
		all = append(all, change{sizeSetting, size(a.Payload), size(b.Payload)})
	}
	return all
}

// Differences lists the settings in which two cells differ, as in mtu=576 instead of 9000.
func (e *Explanation) Differences() []string {
	if e.Against == nil || e.Of.Cell().Stack != e.Against.Cell().Stack {
		return nil // two stacks differ in more than settings
	}
	var texts []string
	for _, c := range changesBetween(e.Against, e.Of) {
		switch {
		case c.key == sharingSetting: // a consequence of others
		case c.a == "":
			texts = append(texts, c.key+"="+c.b)
		case c.b == "":
			texts = append(texts, "no "+c.key+"="+c.a)
		default:
			texts = append(texts, fmt.Sprintf("%s=%s instead of %s", c.key, c.b, c.a))
		}
	}
	return texts
}

// SettingsOfEach lists the settings of each of two cells in which they differ.
func (e *Explanation) SettingsOfEach() (of, against string) {
	var b, a []string
	for _, c := range changesBetween(e.Against, e.Of) {
		if _, known := effects[c.key]; !known || c.key == sharingSetting {
			continue
		}
		write := func(value string) string {
			if value == "" {
				return "no " + c.key
			}
			return c.key + "=" + value
		}
		b, a = append(b, write(c.b)), append(a, write(c.a))
	}
	return strings.Join(b, " and "), strings.Join(a, " and ")
}

// An effect says what a setting is known to act on.
type effect struct {
	usual   string // the default; empty if there is none, or if it depends on the stack
	ofStack bool   // the setting means something only within one stack
	kinds   []CauseKind
	// takes lists the kinds whose evidence is a consequence of the first of kinds, and gets its name. A
	// window makes calls wait, for example, and thereby wakes threads more often.
	takes []CauseKind
	// fits reports whether the facts allow this effect. more is the cell that has more of the cause; less
	// is nil if there is one cell. If fits is nil, all facts do.
	fits func(more, less *Insight) bool
	// says describes the effect of a value, which replaces %s.
	says string
	// facts adds counts to the description, beginning with a comma or a space; nil adds none.
	facts func(more, less *Insight) string
}

var (
	inMemory = []CauseKind{ByCollector, ByAllocation, ByFaults, ByCopying}
	// inAll lists the kinds that follow from calls which wait for each other, or which open connections.
	inAll = []CauseKind{
		idle, other, ByWaking, BySystemCalls, ByPackets, ByProtocol, ByAllocation, ByCollector, ByFaults, ByCopying,
		ByEncoding, ByEncryption, ByHandshake, ByRunQueue, ByWindow, ByLimit, ByHeadOfLine, ByLock, ByConnection,
	}
	inWaits = []CauseKind{idle, ByRunQueue, ByLock, ByConnection}
	inSizes = []CauseKind{ByCopying, ByPackets, ByFaults, ByEncryption, ByEncoding, ByCollector, ByAllocation, BySystemCalls, ByHandler}
)

// effects says what each setting is known to act on.
var effects = map[string]effect{
	// Memory.
	"gogc":        {usual: "100", kinds: []CauseKind{ByCollector, ByAllocation}, says: "the heap may grow by only %s %%"},
	"smallobject": {usual: "32KiB", kinds: inMemory},
	"buffers":     {ofStack: true, kinds: append([]CauseKind{BySystemCalls}, inMemory...)},
	"recv-pool":   {ofStack: true, usual: "on", kinds: inMemory},
	"pool-tiers":  {ofStack: true, kinds: inMemory},
	"messages":    {usual: "fresh", kinds: inMemory},
	"alias":       {ofStack: true, usual: "off", kinds: inMemory},

	// What libraries do for a call.
	"codec":   {ofStack: true, kinds: []CauseKind{ByEncoding, ByAllocation, ByCollector}},
	"json":    {ofStack: true, usual: "std", kinds: []CauseKind{ByEncoding, ByAllocation, ByCollector}},
	"framing": {ofStack: true, kinds: []CauseKind{ByProtocol, BySystemCalls}},
	"router":  {ofStack: true, usual: "std", kinds: []CauseKind{ByProtocol, ByAllocation}},
	"http":    {ofStack: true, usual: "1", kinds: []CauseKind{ByProtocol, ByWaking}},
	"spin":    {ofStack: true, kinds: []CauseKind{ByWaking}, takes: []CauseKind{idle, BySystemCalls, ByPackets}},

	// Connections.
	"tls":             {usual: "off", kinds: []CauseKind{ByEncryption, ByHandshake}},
	"cert":            {usual: "ecdsa", kinds: []CauseKind{ByHandshake}, takes: []CauseKind{ByEncryption, idle}, fits: opensConnections, facts: describeSignature},
	"group":           {usual: "x25519mlkem768", kinds: []CauseKind{ByHandshake}, takes: []CauseKind{ByEncryption}, fits: opensConnections, says: "its TLS key exchange is %s"},
	"handshakes":      {kinds: []CauseKind{ByHandshake}, takes: inWaits, fits: opensConnections},
	connectionSetting: {kinds: []CauseKind{ByHandshake}, takes: inAll, fits: opensConnections, says: "each call opens a connection", facts: describeHandshakes},
	sharingSetting:    {kinds: []CauseKind{ByConnection}, takes: inAll, fits: hasFewerConnections, facts: countConnections},

	// Limits.
	"window":   {ofStack: true, kinds: []CauseKind{ByWindow}, takes: []CauseKind{idle, ByWaking, BySystemCalls, ByPackets, ByProtocol}, fits: mayFillWindow, says: "a sender may have only %s under way"},
	"calls":    {ofStack: true, kinds: []CauseKind{ByLimit}, takes: inWaits, fits: reachesLimit("calls"), says: "the limit of calls in progress is %s"},
	"inflight": {kinds: []CauseKind{ByLimit}, takes: inWaits, fits: reachesLimit("inflight"), says: "the limit of calls in progress is %s"},
	"gate":     {ofStack: true, kinds: []CauseKind{ByLimit}, takes: inWaits, fits: reachesLimit("gate"), says: "the limit of calls in progress is %s"},
	"beside":   {kinds: []CauseKind{ByHeadOfLine}, takes: inAll, fits: sharesConnections, says: "a call of %s is always under way on the same connection"},

	// The service.
	"chunks":  {kinds: []CauseKind{ByProtocol}, takes: append([]CauseKind{ByHandler, ByHandlerWait}, inAll...), says: "a call has %s messages"},
	"compute": {kinds: []CauseKind{ByHandler}, says: "it computes for %s"},
	"copy":    {kinds: []CauseKind{ByCopying}, takes: []CauseKind{ByFaults}, says: "the client copies %s for each call"},
	"stall":   {kinds: []CauseKind{ByHandlerWait}, takes: inWaits, says: "it sleeps %s", facts: countStalls},
	"locked":  {kinds: []CauseKind{ByLock}, takes: inWaits, says: "one request at a time holds a lock for %s"},
	"work":    {usual: "10ms", kinds: []CauseKind{ByHandlerWait}, takes: inWaits, says: "it sleeps %s"},
	"op":      {kinds: inSizes},
	"limit":   {kinds: inSizes},

	// What a user's service does in the kernel.
	syscallsSetting: {kinds: []CauseKind{BySystemCalls}, takes: []CauseKind{ByPackets, ByWaking, other, idle}, says: "a call makes %s system calls at the server", facts: mostSyscalls},
	connectSetting:  {kinds: []CauseKind{ByHandshake}, takes: append([]CauseKind{ByHandler, ByHandlerWait}, inAll...), says: "the service opens connections to others, %s per call"},
	processSetting:  {kinds: []CauseKind{ByProcesses}, takes: append([]CauseKind{ByHandler, ByHandlerWait}, inAll...), says: "the service starts other processes, %s per call"},

	// The link.
	"mtu":        {usual: "1500", kinds: []CauseKind{ByPackets}, takes: []CauseKind{idle, ByWaking, BySystemCalls}, says: "a packet holds at most %s B", facts: countPackets},
	"delay":      {kinds: []CauseKind{ByLink}, takes: inWaits, says: "the link delays packets by %s each way"},
	"rate":       {kinds: []CauseKind{ByLink}, takes: inWaits, says: "the link carries only %s"},
	"loss":       {kinds: []CauseKind{ByLink}, takes: inWaits, says: "the link loses %s of the packets", facts: countRetransmits},
	"burst-loss": {kinds: []CauseKind{ByLink}, takes: inWaits, facts: countRetransmits},
	"reorder":    {kinds: []CauseKind{ByLink}, takes: inWaits, facts: countRetransmits},
	"jitter":     {kinds: []CauseKind{ByLink}, takes: inWaits},
	"queue":      {kinds: []CauseKind{ByLink}, takes: inWaits},
	"cc":         {kinds: []CauseKind{ByLink}, takes: inWaits},

	// The load.
	"unpinned":     {usual: "false", kinds: []CauseKind{BySharedCPU}, takes: []CauseKind{idle, ByWaking}},
	clientsSetting: {kinds: []CauseKind{ByRunQueue}, takes: []CauseKind{idle}, fits: queues, says: "%s clients call at once", facts: countQueue},
	sizeSetting:    {kinds: inSizes, says: "a message has %s"},
}

func opensConnections(more, _ *Insight) bool { return valueOf(more.Facts.Opened) >= mostCalls }

// mostCalls is the least share of calls for which something counts as true of each call.
const mostCalls = 0.5

func hasFewerConnections(more, less *Insight) bool {
	return less != nil && valueOf(more.Facts.Connections) < valueOf(less.Facts.Connections)
}

func sharesConnections(more, _ *Insight) bool {
	return valueOf(more.Facts.Connections) < float64(more.Clients) || more.Clients == 1
}

// mayFillWindow reports whether the messages in flight are larger than the window.
func mayFillWindow(more, _ *Insight) bool {
	bytes, inFlight := max(more.RequestBytes, more.ResponseBytes), math.Max(1, valueOf(more.Facts.InFlight))
	for _, s := range more.Settings {
		if size, is := sizeOf(s.Value); is && s.Key == "window" {
			return float64(bytes)*inFlight > size
		}
	}
	return false
}

var numberAndUnit = pattern.Lazy(`^(\d+(?:\.\d+)?)([^\d\s].*)$`)

// sizeOf reads a size such as 64KiB.
func sizeOf(text string) (bytes float64, is bool) {
	var number float64
	if _, err := fmt.Sscan(text, &number); err != nil {
		return 0, false
	}
	for i, unit := range []string{"KiB", "MiB", "GiB"} {
		if strings.HasSuffix(text, unit) {
			number *= math.Pow(1024, float64(i+1))
		}
	}
	return number, true
}

// reachesLimit returns a check whether more clients call at once than a limit of calls allows.
func reachesLimit(key string) func(more, _ *Insight) bool {
	return func(more, _ *Insight) bool {
		return slices.ContainsFunc(more.Settings, func(s CellOption) bool {
			limit, is := sizeOf(s.Value)
			return is && s.Key == key && float64(more.Clients) > limit
		})
	}
}

func queues(more, less *Insight) bool { return less == nil || more.Clients > less.Clients }

// clause returns the clause that gives a setting as the reason.
func (c change) clause(more, less *Insight, its, others string) string {
	known := effects[c.key]
	clause := ""
	switch {
	case its == "" && known.usual != "":
		its = known.usual
	case its == "":
		clause = fmt.Sprintf("%s=%s is not set", c.key, others)
	}
	if known.says != "" && its != "" {
		clause = known.says
		if strings.Contains(clause, "%s") {
			clause = fmt.Sprintf(clause, withSpace(its))
		}
	}
	if known.facts != nil {
		clause = strings.TrimPrefix(clause+known.facts(more, less), soText)
	}
	switch written := c.key + "=" + its; {
	case its == "" || slices.Contains(countedSettings, c.key):
		return clause
	case clause == "":
		return written + " is set"
	default:
		return fmt.Sprintf("%s (%s)", clause, written)
	}
}

// withSpace writes a value with a space before its unit.
func withSpace(value string) string {
	return strings.ReplaceAll(numberAndUnit().ReplaceAllString(value, "$1 $2"), " us", " µs")
}

// soText begins a count that follows from a setting.
const soText = ", so "

func countPackets(more, less *Insight) string {
	packets := more.Facts.Packets
	if packets == nil {
		return ""
	}
	text := soText + fmt.Sprintf("a call takes %s packets", units.Number(*packets))
	if less != nil && less.Facts.Packets != nil {
		text += ", against " + units.Number(*less.Facts.Packets)
	}
	return text
}

func describeSignature(more, _ *Insight) string {
	kind := "ECDSA"
	for _, s := range more.Settings {
		if s.Key == "cert" {
			kind = strings.ToUpper(s.Value)
		}
	}
	text := soText + "the server signs with " + kind
	if cpu := more.Server.CPU; cpu != nil {
		for _, c := range cpu.Categories {
			if kindsOfCategories[c.Name] == ByEncryption {
				text += ", which takes " + units.Time(c.PerCall*1e3) + " in TLS"
			}
		}
	}
	return text
}

func describeHandshakes(_, less *Insight) string {
	if less != nil && opensConnections(less, nil) {
		return " with a complete handshake"
	}
	return ""
}

func countRetransmits(more, _ *Insight) string {
	if valueOf(more.Facts.Retransmits) == 0 {
		return ""
	}
	return soText + fmt.Sprintf("%s packets per call are sent again", units.Number(*more.Facts.Retransmits))
}

func countConnections(more, less *Insight) string {
	if less == nil {
		return ""
	}
	all := units.Number(valueOf(more.Facts.Connections)) + " connections"
	if all == "1 connections" {
		all = "one connection"
	}
	return soText + fmt.Sprintf("all calls share %s, against %s", all, units.Number(valueOf(less.Facts.Connections)))
}

func countStalls(more, _ *Insight) string {
	every := "100"
	for _, s := range more.Settings {
		if s.Key == "every" {
			every = s.Value
		}
	}
	return " in one of " + every + " calls"
}

// countQueue says how many calls wait for a CPU.
func countQueue(more, _ *Insight) string {
	l := loadOf(more, stillBusy)
	mean, _ := more.meanOrRefused()
	if l.busiest == "" || mean == nil {
		return ""
	}
	own := cpuTime(more, ClientEnd) + cpuTime(more, ServerEnd)
	waiting := l.inFlight * math.Max(0, 1 - own / *mean)
	text := soText + fmt.Sprintf("%s of %s calls wait for a CPU: ", units.Number(math.Round(waiting)), units.Number(math.Round(l.inFlight)))
	if sharesCPUs(more) {
		return text + "both ends run on the same CPU"
	}
	if l.busiest == bothBusy {
		return text + fmt.Sprintf("both ends' CPUs are up to %s busy", percent(l.busy))
	}
	return text + fmt.Sprintf("the %s's CPU is %s busy", l.busiest, percent(l.busy))
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*math.Min(1, share)) }

// idleCalls are the system calls in which a thread also waits if it has nothing to do.
var idleCalls = []string{
	"epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6", "futex", "nanosleep", "accept", "accept4", "read",
	"recvfrom", "recvmsg", "restart_syscall", "io_uring_enter", "sched_yield", "wait4", "waitid", "rt_sigtimedwait",
}

// waitingCall names the system call in which a user's service waits most, if that is a large part of the
// time that it waits longer than another service.
func waitingCall(more, less *Insight, waits float64) string {
	if more.Cell().Stack != record.ServiceStack {
		return ""
	}
	timeOf := func(i *Insight, name string) float64 {
		for _, s := range i.Server.Syscalls {
			if s.Name == name {
				return s.PerCall * valueOf(s.Time)
			}
		}
		return 0
	}
	text, most := "", leastOfWait*waits
	for _, s := range more.Server.Syscalls {
		us := timeOf(more, s.Name)
		if less != nil {
			us -= timeOf(less, s.Name)
		}
		if us > most && s.PerCall >= leastTimes && !slices.Contains(idleCalls, s.Name) {
			text, most = fmt.Sprintf("the service waits %s in the system call %s", units.Time(us*1e3), s.Name), us
		}
	}
	return text
}

// leastOfWait is the least share of a wait from which a system call explains it.
const leastOfWait = 0.3

const (
	manySyscalls = 10  // more system calls per call than of another service from which they may be a cause
	startsOne    = 0.3 // processes and connections per call from which starting or opening them may be a cause
)

// kernelChanges lists what calls of a user's service do more often in the kernel than those of another.
func kernelChanges(of, against *Insight) (all []change) {
	if against == nil || of.Cell().Stack != record.ServiceStack {
		return nil
	}
	count := func(i *Insight, only string) (sum float64) {
		for _, s := range i.Server.Syscalls {
			if only == "" || s.Name == only {
				sum += s.PerCall
			}
		}
		return sum
	}
	for key, name := range map[string]string{processSetting: "execve", connectSetting: "connect"} {
		if a, b := count(against, name), count(of, name); math.Abs(a-b) >= startsOne {
			all = append(all, change{key, units.Number(a), units.Number(b)})
		}
	}
	a, b := count(against, ""), count(of, "")
	if math.Abs(a-b) >= manySyscalls && math.Max(a, b) >= 2*math.Min(a, b) {
		all = append(all, change{syscallsSetting, units.Number(a), units.Number(b)})
	}
	return all
}

// mostSyscalls names the system calls that a service makes more often than another one, at most three, and how many
// files it opens or removes.
func mostSyscalls(more, less *Insight) string {
	before := map[string]float64{}
	for _, s := range less.Server.Syscalls {
		before[s.Name] = s.PerCall
	}
	most, files := slices.Clone(more.Server.Syscalls), 0.0
	for i := range most {
		most[i].PerCall -= before[most[i].Name]
		if slices.Contains(fileCalls, most[i].Name) {
			files += most[i].PerCall
		}
	}
	slices.SortStableFunc(most, func(x, y Syscall) int { return cmp.Compare(y.PerCall, x.PerCall) })
	var named []string
	for _, s := range most[:min(3, len(most))] {
		if s.PerCall >= startsOne {
			named = append(named, units.Number(s.PerCall+before[s.Name])+" "+s.Name)
		}
	}
	text := fmt.Sprintf(" (%s), against %s", strings.Join(named, ", "), units.Number(*cmp.Or(less.Server.SyscallsPerCall(), new(0.0))))
	if files >= startsOne {
		text += fmt.Sprintf(", and opens, renames or removes files %s times", units.Number(files))
	}
	return text
}

// fileCalls are the system calls that open, make, rename or remove files and folders.
var fileCalls = []string{
	"open", "openat", "openat2", "creat", "unlink", "unlinkat", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir", "link", "linkat", "symlink", "symlinkat",
}

// countUnread says how many requests a user's service does not read at a time.
func countUnread(of *Insight) string {
	unread, inFlight := 0.0, valueOf(of.Facts.InFlight)
	if of.Life != nil {
		unread = valueOf(of.Life.Unread)
	}
	if unread < 1 || inFlight < unread {
		return ""
	}
	handled := "about " + units.Number(math.Round(inFlight-unread))
	if inFlight-unread < 1.5 {
		handled = "one"
	}
	return fmt.Sprintf("%s of %s requests lie unread in its sockets, so it handles %s at a time", units.Number(unread), units.Number(inFlight), handled)
}
