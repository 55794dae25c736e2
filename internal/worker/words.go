package worker

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

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

// tail keeps the last lines of what is written to it.
type tail struct {
	guard sync.Mutex
	text  []byte
}

const (
	tailBytes = 8 << 10
	tailLines = 10
)

func (t *tail) Write(b []byte) (int, error) {
	t.guard.Lock()
	defer t.guard.Unlock()
	t.text = append(t.text, b...)
	if extra := len(t.text) - tailBytes; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(b), nil
}

func (t *tail) lines() []string {
	t.guard.Lock()
	defer t.guard.Unlock()
	text := strings.TrimSpace(string(t.text))
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-tailLines):]
}

func excerpt(line string) string {
	const most = 200
	if len(line) > most {
		return fmt.Sprintf("%q … (%d bytes)", line[:most], len(line))
	}
	return fmt.Sprintf("%q", line)
}
