package main

import (
	"fmt"
	"time"
)

// clock divides the time between the packages in their combinations. What one
// does not need goes to those after it.
type clock struct {
	began, ends  time.Time
	shares, done int
	missed       int // of those done: time was up before their first run
}

// unlimited is more time than any run takes.
const unlimited = 100 * 365 * 24 * time.Hour

func newClock(atMost time.Duration, shares int) *clock {
	if atMost == 0 {
		atMost = unlimited
	}
	now := time.Now()
	return &clock{began: now, ends: now.Add(atMost), shares: shares}
}

// share returns the time by which the next package in a combination must have started its
// last run.
func (c *clock) share() (until time.Time) {
	now := time.Now()
	return now.Add(c.ends.Sub(now) / time.Duration(c.shares-c.done))
}

// over reports whether no run may start.
func (c *clock) over() bool { return time.Now().After(c.ends) }

// left returns the finished percentage and the time that the rest will take at the speed
// so far.
func (c *clock) left() string {
	if c.done == 0 {
		return "0 % done"
	}
	passed := time.Since(c.began)
	rest := passed / time.Duration(c.done) * time.Duration(c.shares-c.done)
	rest = min(rest, max(0, time.Until(c.ends)))
	return fmt.Sprintf("%d %% done, about %v left", 100*c.done/c.shares, rest.Round(time.Minute))
}
