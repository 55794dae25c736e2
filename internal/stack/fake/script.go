package fake

import (
	"errors"
	"fmt"
	"time"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
)

var options = []stack.Option{
	{Key: "delay", Help: "DURATION: each call takes this long, as in delay=5ms"},
	{Key: "parallel", Help: "N: so many calls take their delay at a time, further ones wait: a capacity of N a delay, exactly"},
	{Key: "stall", Help: "DURATION: calls that begin this early in a period wait until it is over, as in stall=100ms"},
	{Key: "every", Default: defaultPeriod.String(), Help: "DURATION: the period of stall, counted on the machine's monotonic clock"},
	{Key: "fail-every", Help: "N: each Nth call fails with Unavailable"},
	{Key: "hang-after", Help: "N: calls after the Nth end only when their caller gives up"},
	{Key: "corrupt-every", Help: "N: each Nth answer is wrong by one bit"},
}

const defaultPeriod = time.Second

// script is what happens to calls. The zero value does nothing to them.
type script struct {
	delay         time.Duration
	parallel      int64
	stall, period time.Duration
	failEvery     int64
	hangAfter     int64
	corruptEvery  int64
}

func parseScript(v scenario.Variant) (script, error) {
	var errs []error
	span := func(key string) time.Duration {
		d, err := stack.Span(v, key)
		errs = append(errs, err)
		return d
	}
	count := func(key string) int64 {
		n, err := stack.Count(v, key)
		errs = append(errs, err)
		return int64(n)
	}
	s := script{
		delay: span("delay"), parallel: count("parallel"), stall: span("stall"), period: span("every"),
		failEvery: count("fail-every"), hangAfter: count("hang-after"), corruptEvery: count("corrupt-every"),
	}
	if err := errors.Join(errs...); err != nil {
		return script{}, err
	}
	if s.parallel > 0 && s.delay == 0 {
		return script{}, fmt.Errorf("variant %s: parallel bounds the calls that take their delay, and there is no delay", v)
	}
	if s.stall == 0 && s.period > 0 {
		return script{}, fmt.Errorf("variant %s: every is the period of a stall, and there is no stall", v)
	}
	if s.stall > 0 && s.period == 0 {
		s.period = defaultPeriod
	}
	if s.stall >= s.period && s.stall > 0 {
		return script{}, fmt.Errorf("variant %s: a stall of %v fills the whole period of %v", v, s.stall, s.period)
	}
	return s, nil
}

// due is the instant at which a call that begins now may be answered. A later
// call is never due earlier, which the timekeeper relies on.
func (s script) due(now int64) int64 {
	if s.stall > 0 {
		period := int64(s.period)
		into := (now%period + period) % period // instants in a synctest bubble may be negative
		if into < int64(s.stall) {
			now += int64(s.stall) - into
		}
	}
	return now + int64(s.delay)
}

func (s script) waits() bool { return s.delay > 0 || s.stall > 0 }

// The following ask about the call of that number, counted from 1.

func (s script) hangs(number int64) bool    { return s.hangAfter > 0 && number > s.hangAfter }
func (s script) fails(number int64) bool    { return s.failEvery > 0 && number%s.failEvery == 0 }
func (s script) corrupts(number int64) bool { return s.corruptEvery > 0 && number%s.corruptEvery == 0 }
