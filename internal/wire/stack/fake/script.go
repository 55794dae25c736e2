package fake

import (
	"errors"
	"fmt"
	"time"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/stack"
)

var options = []scenario.Option{
	{Key: "delay", Parse: scenario.PositiveTime, Help: "DURATION: each call takes this long, as in delay=5ms"},
	{Key: "parallel", Parse: scenario.Count, Help: "N: N calls take their delay at the same time, further ones wait: a capacity of exactly N per delay"},
	{Key: "stall", Parse: scenario.PositiveTime, Help: "DURATION: the server answers nothing in the first DURATION of each period, as in stall=100ms"},
	{Key: "every", Default: "1s", Parse: scenario.PositiveTime, Help: "DURATION: the period of stall, counted on the machine's monotonic clock"},
	{Key: "fail-every", Parse: scenario.Count, Help: "N: each Nth call fails with Unavailable"},
	{Key: "hang-after", Parse: scenario.Count, Help: "N: calls after the Nth end only when their caller gives up"},
	{Key: "corrupt-every", Parse: scenario.Count, Help: "N: each Nth answer is wrong by one bit"},
}

// script says what happens to calls. The zero value answers them at once.
type script struct {
	delay         time.Duration
	parallel      int64
	stall, period time.Duration
	failEvery     int64
	hangAfter     int64
	corruptEvery  int64
}

func parseScript(v scenario.Variant) (script, error) {
	o := stack.ReadOptions(Stack{}, v)
	count := func(key string) int64 { return int64(scenario.Value[int](o, key)) }
	s := script{
		delay: scenario.Value[time.Duration](o, "delay"), parallel: count("parallel"),
		stall: scenario.Value[time.Duration](o, "stall"), period: scenario.Value[time.Duration](o, "every"),
		failEvery: count("fail-every"), hangAfter: count("hang-after"), corruptEvery: count("corrupt-every"),
	}
	switch {
	case s.parallel > 0 && s.delay == 0:
		o.Fail(errors.New("parallel bounds the calls that take their delay, and there is no delay"))
	case s.stall == 0 && o.Has("every"):
		o.Fail(errors.New("every is the period of a stall, and there is no stall"))
	case s.stall == 0:
		s.period = 0
	case s.stall >= s.period:
		o.Fail(fmt.Errorf("a stall of %v fills the whole period of %v", s.stall, s.period))
	}
	if o.Err() != nil {
		return script{}, o.Err()
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

// The following report what happens to the call of a number, counted from 1.

func (s script) hangs(number int64) bool    { return s.hangAfter > 0 && number > s.hangAfter }
func (s script) fails(number int64) bool    { return s.failEvery > 0 && number%s.failEvery == 0 }
func (s script) corrupts(number int64) bool { return s.corruptEvery > 0 && number%s.corruptEvery == 0 }
