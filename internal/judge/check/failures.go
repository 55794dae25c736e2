package check

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// countMachineLimitFailures counts the requests that failed because of a limit of the machine, and
// returns their most frequent failure.
func (t trial) countMachineLimitFailures() (requests int64, most record.ErrorCount) {
	for _, e := range t.Errors {
		switch failure.Class(e.Class) {
		case failure.PortExhaustion, failure.DescriptorLimit, failure.Backlog:
			requests += e.Count
			if e.Count > most.Count {
				most = e
			}
		}
	}
	return requests, most
}

// hasNaiveClient reports whether the client ignores the machine's limits by design.
func (t trial) hasNaiveClient() bool {
	v, err := scenario.ParseVariant(t.Cell.Variant)
	kind, _ := v.Get(scenario.ClientOption)
	return err == nil && kind == scenario.NaiveClient
}

// checkMachineLimits checks that no request failed at a limit of the machine.
func (t trial) checkMachineLimits() record.Check {
	c := record.Check{Level: record.OK, Unit: "requests", Detail: "no request failed because of a limit of the machine"}
	failed, most := t.countMachineLimitFailures()
	c.Figure, c.Limit = new(float64(failed)), new(0.0)
	if failed > 0 {
		setVerdict(&c, record.Invalid, "%d of %d requests failed because of a limit of the machine, not of the protocol; the most frequent failure is %s: %s",
			failed, t.Requests, most.Class, most.Example)
		if t.hasNaiveClient() {
			c.Level = record.Warning
			c.Detail += "; a naive client ignores these limits by design, so its failures are a result"
		}
		return c
	}
	datagrams := t.Requests
	if t.Traffic == nil || t.Traffic.Transport != "udp" {
		datagrams = 0
	}
	for _, full := range []struct {
		dropped int64
		of      int64
		words   string
	}{
		{valueOrZero(t.Host.AcceptDrops), t.Connections.During, "backlog: %d of %d connections found the server's accept queue full, and were tried again a second later"},
		{valueOrZero(t.Host.UDPDrops), datagrams, "udp-buffer: the kernel dropped %d datagrams during %d requests, because receive buffers were full"},
	} {
		// The kernel counts the drops of all programs. If the trial used no connections or no
		// datagrams, other programs caused such drops.
		if full.dropped == 0 || full.of == 0 {
			continue
		}
		c.Figure, c.Unit = new(float64(full.dropped)), "drops"
		setVerdict(&c, warnAboveZero(t.limits.Drops).level(float64(full.dropped)/float64(full.of)), full.words, full.dropped, full.of)
		if t.hasNaiveClient() {
			c.Level = record.Warning
		}
		return c
	}
	return c
}

func (t trial) checkFailures() record.Check {
	c := record.Check{Level: record.OK, Unit: "share", Detail: "no request failed"}
	failed := t.Failed()
	share := float64(failed) / float64(max(1, t.Requests))
	c.Figure, c.Limit = &share, new(t.limits.Errors)
	if failed > 0 {
		most := slices.MaxFunc(t.Errors, func(a, b record.ErrorCount) int { return cmp.Compare(a.Count, b.Count) })
		cause := most.Code
		if cause == codes.Unknown.String() { // HTTP has no code for calls without an answer
			cause = cmp.Or(most.Class, cause)
		}
		setVerdict(&c, warnAboveZero(t.limits.Errors).level(share), "%d of %d requests failed; the most frequent failure is %s: %s", failed, t.Requests, cause, most.Example)
		c.Detail += t.describeFailedCallTimes()
		if own, _ := t.countMachineLimitFailures(); t.hasNaiveClient() && float64(failed-own) <= t.limits.Errors*float64(t.Requests) {
			c.Level = record.Warning // checkMachineLimits reports failures at a limit
		}
		if t.Cell.Kind().MayFail && failed < t.Requests { // users also measure failing services
			c.Level = record.Warning
			if t.stoppedListening() {
				c.Detail = "the service stopped listening under load; " + c.Detail
			}
		}
	}
	asked := int64(t.Cell.Clients) * int64(t.Cell.Load.RequestsPerClient)
	if asked = max(asked, int64(t.Cell.Load.TotalRequests)); t.Requests < asked && !t.EndedEarly {
		setVerdict(&c, record.Invalid, "%d of %d requests were never sent, because earlier calls never ended (%s)", asked-t.Requests, asked, c.Detail)
	}
	return c
}

// stoppedListening reports whether a user's service refused connections in the window.
func (t trial) stoppedListening() bool {
	return t.Cell.Kind().MayFail && t.Failed() < t.Requests &&
		slices.ContainsFunc(t.Errors, func(e record.ErrorCount) bool { return failure.Class(e.Class) == failure.Refused })
}

// describeFailedCallTimes compares the mean time of failed calls with the mean time of other calls.
func (t trial) describeFailedCallTimes() string {
	failed := t.Failed()
	well := t.Service.Count - failed
	if t.FailedNS == nil || failed <= 0 || well <= 0 {
		return ""
	}
	mean, others := float64(*t.FailedNS)/float64(failed), float64(t.Service.Sum-*t.FailedNS)/float64(well)
	if others <= 0 || t.limits.Moved.level(max(mean/others, others/max(1, mean))-1) == record.OK {
		return ""
	}
	return fmt.Sprintf("; failed calls took %s on average, and other calls %s; latencies include both: without failed calls the mean would be %s times as long", units.Time(mean), units.Time(others),
		units.Number(others*float64(t.Service.Count)/float64(t.Service.Sum)))
}

const (
	// Fewer answers than leastOddAnswers, and shares from maxOddShare, are no finding: then the
	// service's answers may have several sizes.
	leastOddAnswers = 3
	maxOddShare     = 0.1
	// Sizes that differ from the usual size by no more than nearBytes or nearShare are usual, too:
	// numbers and times differ in length.
	nearBytes, nearShare = 4, 0.25
)

// checkAnswerSizes looks for a few answers with another size than almost all answers have. Such an
// answer may be empty, cut, or an error page with a good status.
func (t trial) checkAnswerSizes() record.Check {
	c := record.Check{Level: record.OK, Unit: "share", Detail: "the client does not report the sizes of answers"}
	a := t.Answers
	if a == nil || a.Count() == 0 {
		return c
	}
	all := a.Count()
	c.Detail = "no answer's size stands out"
	most := slices.MaxFunc(slices.Concat(a.Sizes, a.Rounded), func(a, b record.SizeCount) int { return cmp.Compare(a.Count, b.Count) }).Bytes
	var usual, odd []record.SizeCount
	var oddCount int64
	for _, s := range slices.Concat(a.Sizes, a.Rounded) {
		if isNearSize(s.Bytes, most) {
			usual = append(usual, s)
		} else {
			odd = append(odd, s)
			oddCount += s.Count
		}
	}
	share := float64(oddCount) / float64(all)
	c.Figure, c.Limit = &share, new(0.0)
	// Steps of a user, and answers with different statuses, differ in size.
	if oddCount < leastOddAnswers || share >= maxOddShare || len(t.Named) > 1 || oddCount == t.otherStatuses(all) {
		return c
	}
	least, largest := sizesIn(usual)
	expression := fmt.Sprintf("size == %d", least)
	if least != largest {
		expression = fmt.Sprintf("size >= %d and size <= %d", least, largest)
	}
	setVerdict(&c, record.Warning, "%d of %d answers had %s, and %d had %s: look at them with --expect '%s'",
		oddCount, all, sizeText(odd), all-oddCount, sizeText(usual), expression)
	return c
}

func isNearSize(size, usual int64) bool {
	apart := float64(max(size-usual, usual-size))
	return (size > 0) == (usual > 0) && apart <= max(nearBytes, nearShare*float64(usual))
}

// otherStatuses returns how many of the good answers have another status than most answers.
func (t trial) otherStatuses(answers int64) (count int64) {
	for _, s := range t.Statuses {
		count = max(count, s.Count)
	}
	return answers - count
}

func sizesIn(sizes []record.SizeCount) (least, largest int64) {
	least, largest = sizes[0].Bytes, sizes[0].Bytes
	for _, s := range sizes {
		least, largest = min(least, s.Bytes), max(largest, s.Bytes)
	}
	return least, largest
}

func sizeText(sizes []record.SizeCount) string {
	least, largest := sizesIn(sizes)
	if least == largest {
		return units.Bytes(int(least), " ")
	}
	return units.Bytes(int(least), " ") + " to " + units.Bytes(int(largest), " ")
}

// checkAnswerTimes checks that no answer took less time than the workload's simulated work.
func (t trial) checkAnswerTimes() record.Check {
	c := record.Check{Level: record.OK, Unit: "us", Detail: "the workload asks for no simulated work"}
	if t.WorkNS == nil || *t.WorkNS <= 0 {
		return c
	}
	h, err := t.decode(&t.Service)
	if err != nil || h.Count() == 0 {
		return c // the check bookkeeping reports unreadable times
	}
	// Failed calls may end before their work is done, so the check leaves out failed calls.
	failed := float64(t.Failed()) / float64(h.Count())
	soonest := h.Quantile(min(1, failed))
	if failed > 0 {
		soonest = h.Quantile(min(1, failed+t.limits.Errors))
	}
	work := float64(*t.WorkNS)
	c.Figure, c.Limit = new(float64(soonest)/1e3), new(work/1e3)
	c.Detail = "no answer came before the server could finish the simulated work"
	if float64(soonest) < work*histogramPrecision {
		setVerdict(&c, record.Invalid, "answers came after %s, but the simulated work takes %s: the server skips the work", units.Time(float64(soonest)), units.Time(work))
	}
	return c
}

// histogramPrecision allows for a histogram's rounding to three digits.
const histogramPrecision = 0.999
