package gotrace

// A stage is a part of a call's time. Two legs of a call may have the same stage.
type stage int

const (
	clientEncode stage = iota
	clientQueue
	clientCollector
	clientLock
	clientWindow
	clientWait
	sendRequest
	transferRequest // a part of the request had come
	serverSocket
	receiveRequest
	serverQueue
	serverCollector
	serverOthers
	serverDecode
	handler
	handlerLock
	handlerWait
	serverEncode
	serverLock
	serverWindow
	serverWait
	sendAnswer
	transferAnswer
	clientSocket
	receiveAnswer
	clientDecode
	clientNoCPU // other programs had the CPU
	serverNoCPU
	// The rest is of services that do not trace themselves.
	serviceRuns
	serviceWaits
	serviceAndWire
	stageCount
)

// Stages lists the names of the stages, about in the order of a call.
var Stages = []string{
	clientEncode:    "client: encode",
	clientQueue:     "client: run queue",
	clientCollector: "client: collector",
	clientLock:      "client: wait for lock",
	clientWindow:    "client: wait for window",
	clientWait:      "client: wait",
	sendRequest:     "send request",
	transferRequest: "transfer request",
	serverSocket:    "server: socket queue",
	receiveRequest:  "receive request",
	serverQueue:     "server: run queue",
	serverCollector: "server: collector",
	serverOthers:    "server: other calls",
	serverDecode:    "server: decode",
	handler:         "handler",
	handlerLock:     "handler: wait for lock",
	handlerWait:     "handler: wait",
	serverEncode:    "server: encode",
	serverLock:      "server: wait for lock",
	serverWindow:    "server: wait for window",
	serverWait:      "server: wait",
	sendAnswer:      "send answer",
	transferAnswer:  "transfer answer",
	clientSocket:    "client: socket queue",
	receiveAnswer:   "receive answer",
	clientDecode:    "client: decode",
	clientNoCPU:     "client: no CPU",
	serverNoCPU:     "server: no CPU",
	serviceRuns:     "service: runs",
	serviceWaits:    "service: waits",
	serviceAndWire:  "service and wire",
}

// A phase names the stages to which a goroutine's time belongs in one part of a call.
type phase struct {
	run, queue, collector, lock, window, wait, network, syscall, noCPU stage
}

var (
	asking        = phase{clientEncode, clientQueue, clientCollector, clientLock, clientWindow, clientWait, sendRequest, sendRequest, clientNoCPU}
	receiving     = phase{serverDecode, serverQueue, serverCollector, serverLock, serverWindow, serverWait, sendRequest, receiveRequest, serverNoCPU}
	handling      = phase{handler, serverQueue, serverCollector, handlerLock, serverWindow, handlerWait, handlerWait, handler, serverNoCPU}
	answering     = phase{serverEncode, serverQueue, serverCollector, serverLock, serverWindow, serverWait, sendAnswer, sendAnswer, serverNoCPU}
	understanding = phase{clientDecode, clientQueue, clientCollector, clientLock, clientWindow, clientWait, sendAnswer, receiveAnswer, clientNoCPU}
)

// A bill adds up the time of a call by stage, in nanoseconds.
type bill struct {
	stages [stageCount]int64
	places places // the same time, also by call stack
}

func (b *bill) spend(s stage, on stackID, ns int64) {
	if ns != 0 {
		b.stages[s] += ns
		b.places[place{s, on}] += ns
	}
}

// add adds the time of a goroutine between two instants.
func (b *bill) add(t *timeline, p *phase, g, from, to int64) {
	for one := range t.parts(g, from, to) {
		spent := one.until - one.from
		if one.to != waiting && one.to != gone {
			without := int64(t.noCPU.integral(one.from, one.until))
			b.spend(p.noCPU, one.stack, without)
			spent -= without
		}
		switch one.to {
		case running:
			assisted := min(spent, int64(t.assists[g].integral(one.from, one.until)))
			b.spend(p.collector, one.stack, assisted)
			b.spend(p.run, one.stack, spent-assisted)
		case ready:
			collected := min(spent, int64(t.collecting.integral(one.from, one.until)))
			b.spend(p.collector, one.stack, collected)
			b.spend(p.queue, one.stack, spent-collected)
		case inSyscall:
			b.spend(p.syscall, one.stack, spent)
		default:
			b.spend(p.waitStage(one.why), one.stack, spent)
		}
	}
}

func (p *phase) waitStage(why purpose) stage {
	switch why {
	case forLock:
		return p.lock
	case forWindow:
		return p.window
	case forCollector:
		return p.collector
	case forNetwork:
		return p.network
	}
	return p.wait
}
