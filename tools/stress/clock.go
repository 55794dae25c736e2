package main

import (
	"fmt"
	"time"
)

// clock divides the time between the packages in their combinations. What one
// does not need goes to those after it.
type clock struct {
	began, ends  time.Time // ends is zero where time is not limited
	shares, done int
	missed       int // of those done: time was up before their first run
}

func newClock(atMost time.Duration, shares int) *clock {
	c := &clock{began: time.Now(), shares: shares}
	if atMost > 0 {
		c.ends = c.began.Add(atMost)
	}
	return c
}

// share is when the next package in a combination must have started its last run.
func (c *clock) share() (until time.Time) {
	now := time.Now()
	if c.ends.IsZero() {
		return now.AddDate(1, 0, 0)
	}
	return now.Add(c.ends.Sub(now) / time.Duration(c.shares-c.done))
}

// over reports whether no run may start.
func (c *clock) over() bool { return !c.ends.IsZero() && time.Now().After(c.ends) }

// left says how much is done and how long the rest will take, if it goes on as
// it did so far.
func (c *clock) left() string {
	if c.done == 0 {
		return "0 % done"
	}
	passed := time.Since(c.began)
	rest := passed / time.Duration(c.done) * time.Duration(c.shares-c.done)
	if !c.ends.IsZero() {
		rest = min(rest, max(0, time.Until(c.ends)))
	}
	return fmt.Sprintf("%d %% done, about %v left", 100*c.done/c.shares, rest.Round(time.Minute))
}
