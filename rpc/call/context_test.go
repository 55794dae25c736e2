package rpccall

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A countingCall counts how often ContextEnded is called.
type countingCall struct {
	Context
	ended atomic.Int64
}

func (c *countingCall) ContextEnded()            { c.ended.Add(1) }
func (c *countingCall) ContextValue(key any) any { return key }

func newCountingCall(deadline time.Duration) *countingCall {
	c := new(countingCall)
	c.Init(c)
	if deadline > 0 {
		c.SetDeadline(time.Now().Add(deadline))
	}
	return c
}

// TestContextEndsAtItsDeadline checks it with and without somebody who waits, and that a
// context derived from it ends too.
func TestContextEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, wait := range map[string]func(*countingCall){
			"nobody waits":  func(*countingCall) { time.Sleep(time.Second) },
			"Done":          func(c *countingCall) { <-c.Done() },
			"StartTimer":    func(c *countingCall) { c.StartTimer(); time.Sleep(time.Second) },
			"a derived one": func(c *countingCall) { <-derived(c).Done() },
		} {
			c := newCountingCall(time.Second)
			if err := c.Err(); err != nil {
				t.Errorf("%s: ended at once: %v", name, err)
			}
			began := time.Now()
			wait(c)
			synctest.Wait()
			if took, err := time.Since(began), c.Err(); took != time.Second || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: after %v: %v, want DeadlineExceeded after 1s", name, took, err)
			}
			if woken := name != "nobody waits"; (c.ended.Load() > 0) != woken {
				t.Errorf("%s: the call was told %d times", name, c.ended.Load())
			}
			<-c.Done() // also after the end
		}
	})
}

func derived(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// TestContextIsCancelled checks that the first reason counts, and that functions run
// unless they were stopped.
func TestContextIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCountingCall(0)
		var ran []string
		c.AfterFunc(func() { ran = append(ran, "kept") })
		stop := c.AfterFunc(func() { ran = append(ran, "stopped") })
		if !stop() || stop() {
			t.Error("a function was not stopped once")
		}
		c.Cancel(context.Canceled)
		c.Cancel(context.DeadlineExceeded)
		synctest.Wait()
		if err := c.Err(); !errors.Is(err, context.Canceled) || c.ended.Load() != 2 {
			t.Errorf("ended with %v, told %d times", err, c.ended.Load())
		}
		if stop := c.AfterFunc(func() { ran = append(ran, "late") }); stop() {
			t.Error("a function that runs at once was stopped")
		}
		synctest.Wait()
		if len(ran) != 2 || ran[0] != "kept" || ran[1] != "late" {
			t.Errorf("ran %q", ran)
		}
		if c.Value("key") != "key" {
			t.Error("Value does not ask the call")
		}
	})
}

// TestStartTimerWith checks that the function decides how the context ends.
func TestStartTimerWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCountingCall(time.Second)
		c.StartTimerWith(func() { c.Cancel(context.Canceled) })
		time.Sleep(time.Second - time.Nanosecond)
		if c.ended.Load() != 0 {
			t.Error("ended early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if c.ended.Load() != 1 {
			t.Errorf("told %d times at the deadline, want once", c.ended.Load())
		}
	})
}
