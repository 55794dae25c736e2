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
}

// divide divides the calls of a window into stages. Every nth call is divided.
func (both *turn) divide(window probe.Span, nth int, life *record.Life) {
	begin, end := max(window.BeginNS, both.client.span.BeginNS), min(window.EndNS, both.client.span.EndNS)
	if both.server != nil {
		begin, end = max(begin, both.server.span.BeginNS), min(end, both.server.span.EndNS)
	}
	regions := slices.Clone(both.client.regions)
	slices.SortFunc(regions, func(a, b region) int { return cmp.Compare(a.begin, b.begin) })
	for i, call := range regions {
		if call.begin < begin || call.end > end || i%nth != 0 {
			continue
		}
		stages, divided := both.divideCall(call)
		if !divided {
			life.Untold++
			continue
		}
		life.Calls = append(life.Calls, stages)
		life.Begins = append(life.Begins, call.begin-window.BeginNS)
	}
}

// divideCall divides a call into stages, which add up to its time.
func (both *turn) divideCall(call region) (stages []int64, divided bool) {
	client, server := both.client, both.server
	if server == nil {
		return divideAtClient(client, both.service, call)
	}
	handled, found := server.handlerOf(call)
	if !found {
		return nil, false
	}
	hops, sent, found := client.ask(call, handled.begin)
	if !found {
		return nil, false
	}
	var b bill
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
	return b[:], true
}

// divideAtClient divides a call to a service that does not trace itself.
func divideAtClient(client *timeline, service cpuTimes, call region) (stages []int64, divided bool) {
	hops, sent, found := client.ask(call, call.end)
	if !found {
		return nil, false
	}
	var b bill
	for _, h := range hops {
		b.add(client, &asking, h.goroutine, h.from, h.to)
	}
	hops, a := client.trail(call.goroutine, call.end, sent)
	noticed := max(a.noticed, sent)
	if service.known {
		without, asleep := int64(service.without.integral(sent, noticed)), int64(service.asleep.integral(sent, noticed))
		b[serverNoCPU] += without
		b[serviceWaits] += asleep
		b[serviceRuns] += noticed - sent - without - asleep
	} else {
		b[serviceAndWire] += noticed - sent
	}
	b.passOn(client, &understanding, hops, noticed)
	return b[:], true
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
	case last < 0 || a.noticed == hops[last].to: // its reader was busy with others all the time
		b.wait(t, p, l.socket, l.sent, noticed)
	case a.waitedSince <= l.sent:
		b.travel(t, p, &l, l.sent, noticed)
	case last == 0: // the goroutine reads the message itself, perhaps in parts
		begun := t.firstRead(l.goroutine, l.sent, noticed)
		b.wait(t, p, l.socket, l.sent, begun)
		b.add(t, p, l.goroutine, begun, noticed)
	default:
		l.reader = hops[last].goroutine
		begun := t.firstPart(&l, noticed)
		b.readByOther(t, p, &l, begun)
		b.wait(t, p, l.transfer, begun, noticed)
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
					b[serverOthers] += other.end - from
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
	b[p.noCPU] += without
	b[l.socket] += queued
	b[l.send] += to - from - without - queued
}

// wait adds time to a stage, except for the time in which the process had no CPU.
func (b *bill) wait(t *timeline, p *phase, s stage, from, to int64) {
	if from < to {
		without := int64(t.noCPU.integral(from, to))
		b[p.noCPU] += without
		b[s] += to - from - without
	}
}

// readByOther adds the time until an instant in which a goroutine that reads for many calls read
// messages of other calls, or waited for this one.
func (b *bill) readByOther(t *timeline, p *phase, l *leg, to int64) {
	steps := t.steps[l.reader]
	for i := max(0, t.before(l.reader, l.sent)); i < len(steps) && steps[i].at < to; i++ {
		since, until := max(l.sent, steps[i].at), to
		if i+1 < len(steps) {
			until = min(to, steps[i+1].at)
		}
		switch {
		case until <= since:
		case steps[i].to == waiting && steps[i].why == forNetwork:
			b.travel(t, p, l, since, until)
		default:
			b.wait(t, p, l.socket, since, until)
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
