package gotrace

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/data/record"
)

// maxCalls limits the calls of a window that are divided. More are sampled evenly.
const maxCalls = 6000

// divideTurn divides the calls of a turn into stages. Every nth call is divided.
func divideTurn(client, server *timeline, window [2]int64, nth int, life *record.Life) {
	begin, end := max(window[0], client.span.BeginNS, server.span.BeginNS), min(window[1], client.span.EndNS, server.span.EndNS)
	regions := slices.Clone(client.regions)
	slices.SortFunc(regions, func(a, b region) int { return cmp.Compare(a.begin, b.begin) })
	for i, call := range regions {
		if call.begin < begin || call.end > end || i%nth != 0 {
			continue
		}
		stages, divided := divideCall(client, server, call)
		if !divided {
			life.Untold++
			continue
		}
		life.Calls = append(life.Calls, stages)
		life.Begins = append(life.Begins, call.begin-window[0])
	}
}

// divideCall divides a call into stages, which add up to its time.
func divideCall(client, server *timeline, call region) (stages []int64, divided bool) {
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
	b.follow(server, &receiving, leg{handled.goroutine, handled.begin, sent, sendRequest, serverSocket})
	b.add(server, &handling, handled.goroutine, handled.begin, handled.end)
	hops, sent = server.handOver(handled.goroutine, handled.end, call.end)
	for _, h := range hops {
		b.add(server, &answering, h.goroutine, h.from, h.to)
	}
	b.follow(client, &understanding, leg{call.goroutine, call.end, sent, sendAnswer, clientSocket})
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
	goroutine, at, sent int64
	send, socket        stage
}

// follow adds the time from the sending of a message to the goroutine that has it.
func (b *bill) follow(t *timeline, p *phase, l leg) {
	hops, a := t.trail(l.goroutine, l.at, l.sent)
	noticed := max(a.noticed, l.sent)
	onTheWay := noticed - l.sent
	without := int64(t.noCPU.integral(l.sent, noticed))
	b[p.noCPU] += without
	onTheWay -= without
	queued := onTheWay // nobody waited for the message: it lay in the socket
	if a.waitedSince <= l.sent {
		queued = max(0, int64(t.full.integral(l.sent, noticed))-without)
	}
	b[l.socket] += queued
	b[l.send] += onTheWay - queued
	slices.Reverse(hops)
	for _, h := range hops {
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
