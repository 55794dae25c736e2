package gotrace

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/probe"
)

// maxCalls limits the calls of a window that are divided. More are sampled evenly.
const maxCalls = 6000

// A turn holds what the processes of a trial did in a turn of the recorders.
type turn struct {
	client *timeline
	server *timeline // nil for a service that does not trace itself
	// service says when the service had a CPU.
	service cpuTimes
	horizon int64 // calls that begin in this time before the end are left out
}

// divide divides the calls of a window into stages, and returns their times also by call stack. A
// share of the calls is divided.
func (both *turn) divide(window probe.Span, share float64, life *record.Life) (calls []places) {
	begin, end := max(window.BeginNS, both.client.span.BeginNS), both.client.span.EndNS
	if both.server != nil {
		begin, end = max(begin, both.server.span.BeginNS), min(end, both.server.span.EndNS)
	}
	last := min(window.EndNS, end-both.horizon)
	regions := slices.Clone(both.client.regions)
	slices.SortFunc(regions, func(a, b region) int { return cmp.Compare(a.begin, b.begin) })
	for i, call := range regions {
		if call.begin < begin || call.begin > last || call.end > end || int(float64(i+1)*share) == int(float64(i)*share) {
			continue
		}
		b := bill{places: places{}}
		if !b.divideCall(both, call) {
			life.Untold++
			continue
		}
		calls, life.Calls = append(calls, b.places), append(life.Calls, b.stages[:])
		life.Begins = append(life.Begins, call.begin-window.BeginNS)
	}
	return calls
}

// divideCall divides a call into stages, which add up to its time.
func (b *bill) divideCall(both *turn, call region) (divided bool) {
	client, server := both.client, both.server
	if server == nil {
		return b.divideAtClient(client, both.service, call)
	}
	handled, found := server.handlerOf(call)
	if !found {
		return false
	}
	hops, sent, found := client.ask(call, handled.begin)
	if !found {
		return false
	}
	for _, h := range hops {
		b.add(client, &asking, h.goroutine, h.from, h.to)
	}
	b.follow(server, &receiving, leg{goroutine: handled.goroutine, at: handled.begin, sent: sent, send: sendRequest, transfer: transferRequest, socket: serverSocket})
	b.add(server, &handling, handled.goroutine, handled.begin, handled.end)
	hops, sent = server.handOver(handled.goroutine, handled.end, call.end)
	for _, h := range hops {
		b.add(server, &answering, h.goroutine, h.from, h.to)
	}
	b.follow(client, &understanding, leg{goroutine: call.goroutine, at: call.end, sent: sent, send: sendAnswer, transfer: transferAnswer, socket: clientSocket})
	return true
}

// divideAtClient divides a call to a service that does not trace itself.
func (b *bill) divideAtClient(client *timeline, service cpuTimes, call region) (divided bool) {
	hops, sent, found := client.ask(call, call.end)
	if !found {
		return false
	}
	for _, h := range hops {
		b.add(client, &asking, h.goroutine, h.from, h.to)
	}
	hops, a := client.trail(call.goroutine, call.end, sent)
	noticed := max(a.noticed, sent)
	if service.known {
		without, asleep := int64(service.without.integral(sent, noticed)), int64(service.asleep.integral(sent, noticed))
		b.spend(serverNoCPU, unknownStack, without)
		b.spend(serviceWaits, unknownStack, asleep)
		b.spend(serviceRuns, unknownStack, noticed-sent-without-asleep)
	} else {
		b.spend(serviceAndWire, unknownStack, noticed-sent)
	}
	b.passOn(client, &understanding, hops, noticed)
	return true
}

// ask follows a call to the instant at which its request was sent, which is before handled.
func (t *timeline) ask(call region, handled int64) (hops []hop, sent int64, found bool) {
	asked, waits := t.lastWait(call, handled)
	if !waits { // the handler was faster than the call, which goes on to wait or to read
		asked = handled
	}
	if wrote, itself := t.lastWrite(call.goroutine, call.begin, asked); itself {
		return []hop{{call.goroutine, call.begin, wrote}}, wrote, true
	}
	if !waits {
		return nil, 0, false
	}
	rest, sent := t.handOver(call.goroutine, asked, handled)
	return append([]hop{{call.goroutine, call.begin, asked}}, rest...), sent, true
}

// A leg is the way of a message: it was sent at an instant, and goroutine had it at the instant at.
type leg struct {
	goroutine, at, sent    int64
	send, transfer, socket stage
	reader                 int64 // the goroutine that read the message
}

// follow adds the time from the sending of a message to the goroutine that has it.
func (b *bill) follow(t *timeline, p *phase, l leg) {
	hops, a := t.trail(l.goroutine, l.at, l.sent)
	noticed := max(a.noticed, l.sent)
	switch last := len(hops) - 1; {
	case last < 0:
		b.wait(t, p, l.socket, hop{l.goroutine, l.sent, noticed})
	case a.noticed == hops[last].to: // its reader was busy with others all the time
		b.wait(t, p, l.socket, hop{hops[last].goroutine, l.sent, noticed})
	case a.waitedSince <= l.sent:
		b.travel(t, p, &l, l.sent, noticed)
	case last == 0: // the goroutine reads the message itself, perhaps in parts
		begun := t.firstRead(l.goroutine, l.sent, noticed)
		b.wait(t, p, l.socket, hop{l.goroutine, l.sent, begun})
		b.add(t, p, l.goroutine, begun, noticed)
	default:
		l.reader = hops[last].goroutine
		begun := t.firstPart(&l, noticed)
		b.readByOther(t, p, &l, begun)
		b.wait(t, p, l.transfer, hop{l.goroutine, begun, noticed})
	}
	b.passOn(t, p, hops, noticed)
}

// passOn adds the time of a trail, whose last hop comes first, after the message was noticed.
func (b *bill) passOn(t *timeline, p *phase, hops []hop, noticed int64) {
	for _, h := range slices.Backward(hops) {
		from := max(h.from, noticed)
		if p == &receiving {
			// Calls that this goroutine handled before.
			for _, other := range t.own[h.goroutine] {
				if other.end <= h.to && other.end > from {
					for one := range t.parts(h.goroutine, from, other.end) {
						b.spend(serverOthers, one.stack, one.until-one.from)
					}
					from = other.end
				}
			}
		}
		if from < h.to {
			b.add(t, p, h.goroutine, from, h.to)
		}
	}
}

// travel adds time in which a message was under way to a process whose reader waited for it. If the
// process was busy with other goroutines, or had no CPU, it did not notice the message.
func (b *bill) travel(t *timeline, p *phase, l *leg, from, to int64) {
	without := int64(t.noCPU.integral(from, to))
	queued := max(0, int64(t.full.integral(from, to))-without)
	b.spend(p.noCPU, unknownStack, without)
	b.spend(l.socket, unknownStack, queued)
	b.spend(l.send, unknownStack, to-from-without-queued)
}

// wait adds the time in which a goroutine did not yet work for the call to a stage, except for the
// time in which the process had no CPU.
func (b *bill) wait(t *timeline, p *phase, s stage, of hop) {
	for one := range t.parts(of.goroutine, of.from, of.to) {
		without := int64(t.noCPU.integral(one.from, one.until))
		b.spend(p.noCPU, one.stack, without)
		b.spend(s, one.stack, one.until-one.from-without)
	}
}

// readByOther adds the time until an instant in which a goroutine that reads for many calls read
// messages of other calls, or waited for this one.
func (b *bill) readByOther(t *timeline, p *phase, l *leg, to int64) {
	for one := range t.parts(l.reader, l.sent, to) {
		if one.to == waiting && one.why == forNetwork {
			b.travel(t, p, l, one.from, one.until)
		} else {
			b.wait(t, p, l.socket, hop{l.reader, one.from, one.until})
		}
	}
}

// firstRead returns when a goroutine first read from a socket, or waited for one, in a period. It
// returns the instant to if it did not.
func (t *timeline) firstRead(g, from, to int64) int64 {
	for _, s := range t.steps[g][max(0, t.before(g, from)):] {
		if s.at >= from && (s.to == inSyscall && s.why == reads || s.to == waiting && s.why == forNetwork) {
			return min(s.at, to)
		}
	}
	return to
}

// firstPart returns when the reader of a connection first told the goroutine about a message, for
// example when it created the goroutine for it. It returns the instant to if that was not before.
func (t *timeline) firstPart(l *leg, to int64) int64 {
	for _, s := range t.steps[l.goroutine][max(0, t.before(l.goroutine, l.sent)):] {
		if s.at >= to {
			break
		}
		if s.at >= l.sent && s.to == ready && s.by == l.reader {
			return s.at
		}
	}
	return to
}

// handlerOf returns the handler of a client's call.
func (t *timeline) handlerOf(call region) (region, bool) {
	for _, one := range t.byName[call.name] {
		if one.begin >= call.begin && one.end <= call.end {
			return one, true
		}
	}
	return region{}, false
}

// lastWait returns when a call last began to wait before an instant.
func (t *timeline) lastWait(call region, before int64) (int64, bool) {
	steps := t.steps[call.goroutine]
	for i := t.before(call.goroutine, before); i >= 0 && steps[i].at >= call.begin; i-- {
		if steps[i].to == waiting {
			return steps[i].at, true
		}
	}
	return 0, false
}

// lastWrite returns when a goroutine last began to write to a socket in a period.
func (t *timeline) lastWrite(g, from, to int64) (int64, bool) {
	steps := t.steps[g]
	for i := t.before(g, to); i >= 0 && steps[i].at >= from; i-- {
		if steps[i].to == inSyscall && steps[i].why == writes {
			return steps[i].at, true
		}
	}
	return 0, false
}
