package gotrace

// A hop is a goroutine that worked for a call between two instants.
type hop struct{ goroutine, from, to int64 }

// An arrival says when a process noticed that a message had come, and when the goroutine that reads
// the message had begun to wait for it. If it did not wait, both instants are the same.
type arrival struct{ noticed, waitedSince int64 }

const (
	maxHops = 16
	// readsPerMessage is the number of reads that a message of a few frames takes.
	readsPerMessage = 4
)

// trail follows a message back from the instant at, when goroutine g had it, to its arrival. It goes
// from goroutine to goroutine by who woke whom. The message was sent at the instant since: nothing
// before belongs to it. If a goroutine was busy all the time since, the message counts as noticed
// when that goroutine passed it on.
func (t *timeline) trail(g, at, since int64) (hops []hop, a arrival) {
	for own := true; ; own = false {
		begin, by, a, arrived := t.backTo(g, at, since, own)
		switch {
		case arrived:
			return append(hops, hop{g, a.noticed, at}), a
		case by == nobody, len(hops) == maxHops:
			return hops, arrival{at, at}
		}
		hops = append(hops, hop{g, begin, at})
		g, at = by, begin
	}
}

// backTo goes back in the steps of one goroutine. It ends where another goroutine woke or created
// it, and returns that goroutine, or where it noticed the message. own says that all that this
// goroutine reads belongs to one call at a time; otherwise a message takes at most readsPerMessage.
func (t *timeline) backTo(g, at, since int64, own bool) (begin, by int64, a arrival, arrived bool) {
	steps := t.steps[g]
	read, count := int64(0), 0 // the begin of the message's read, and the number of reads
	for i := t.before(g, at-1); i >= 0; i-- {
		s := steps[i]
		if s.at < since {
			break
		}
		switch {
		case s.to == inSyscall && s.why == reads:
			if count++; !own && count > readsPerMessage {
				return 0, 0, arrival{read, read}, true
			}
			if own || read == 0 {
				read = s.at
			}
		case s.to == inSyscall && s.why == writes && read != 0:
			return 0, 0, arrival{read, read}, true
		case s.to == ready && i > 0 && steps[i-1].to == waiting:
			switch {
			case s.by == nobody && steps[i-1].why == forNetwork:
				return 0, 0, arrival{s.at, steps[i-1].at}, true
			case read != 0: // it waited for something else before it read
				return 0, 0, arrival{read, read}, true
			case s.by != nobody:
				return s.at, s.by, a, false
			}
		case s.to == ready && s.by != nobody && s.by != g && (i == 0 || steps[i-1].to == gone):
			return s.at, s.by, a, false
		}
	}
	if read != 0 {
		return 0, 0, arrival{read, read}, true
	}
	return 0, nobody, a, false
}

// handOver follows a message forward from the instant at, when goroutine g had made it, to the
// instant at which its writing to the socket began. until bounds the search.
func (t *timeline) handOver(g, at, until int64) (hops []hop, sent int64) {
	steps := t.steps[g]
	end := until
	if others := t.own[g]; len(others) > 0 {
		for _, other := range others {
			if other.begin >= at {
				end = min(end, other.begin) // the next call on this goroutine
				break
			}
		}
	}
	put := end
	for i := t.before(g, at-1) + 1; i < len(steps) && steps[i].at < end; i++ {
		if s := steps[i]; s.to == inSyscall && s.why == writes {
			return []hop{{g, at, s.at}}, s.at
		} else if s.to == gone || s.to == waiting {
			put = s.at
			break
		}
	}
	hops = []hop{{g, at, put}}
	writer, known := t.writers[t.lasting(g)]
	if !known {
		return hops, put
	}
	steps, ran := t.steps[writer], false
	for i := max(0, t.before(writer, put)); i < len(steps) && steps[i].at < until; i++ {
		s := steps[i]
		switch {
		case s.to == running:
			ran = true
		case s.to == inSyscall && s.why == writes && s.at >= put, s.to == waiting && ran && s.at >= put:
			return append(hops, hop{writer, put, s.at}), s.at
		}
	}
	return hops, put
}
