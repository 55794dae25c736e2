package worker

import (
	"fmt"
	"strings"
	"sync"
)

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
