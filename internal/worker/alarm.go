package worker

import "time"

// alarm calls its function when it has not been reset for a while.
type alarm struct {
	after time.Duration
	timer *time.Timer
}

func newAlarm(after time.Duration, ring func()) *alarm {
	a := &alarm{after: after}
	if after > 0 {
		a.timer = time.AfterFunc(after, ring)
	}
	return a
}

func (a *alarm) reset() {
	if a.timer != nil {
		a.timer.Reset(a.after)
	}
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}
