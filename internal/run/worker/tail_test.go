package worker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestAPanicIsQuotedFromItsBeginning(t *testing.T) {
	trace := strings.Repeat("main.call(0x1)\n\t/main.go:7 +0x1\n", 20)
	for text, want := range map[string]string{
		"reading\npanic: no stock\n\ngoroutine 7 [running]:\n" + trace: "panic: no stock",
		"fatal error: all goroutines are asleep\n" + trace:             "fatal error: all goroutines are asleep",
		"a\nb\n" + strings.Repeat("waiting\n", maxTailLines-1) + "end": "waiting",
	} {
		tail := &outputTail{}
		fmt.Fprint(tail, text)
		if lines := tail.lastLines(); len(lines) != maxTailLines || lines[0] != want {
			t.Errorf("%d lines from %q, want %d from %q", len(lines), lines[0], maxTailLines, want)
		}
	}
	if lines := (&outputTail{}).lastLines(); !slices.Equal(lines, nil) {
		t.Errorf("lines of nothing: %q", lines)
	}
}
