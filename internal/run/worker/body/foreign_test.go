package body

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// TestOutputOfOtherProgramsIsBounded has a program print without end, and one print as
// much as it may.
func TestOutputOfOtherProgramsIsBounded(t *testing.T) {
	endless := exec.Command("cat", "/dev/zero")
	var output boundedBuffer
	endless.Stdout, endless.Stderr = &output, &output
	if err := endless.Run(); err == nil || output.err == nil || !strings.Contains(output.err.Error(), "printed more than 1024 KiB") {
		t.Errorf("it ended with %v and %v", err, output.err)
	}
	if n := output.text.Len(); n > maxForeignOutputBytes {
		t.Errorf("%d bytes were kept", n)
	}
	whole := exec.Command("cat")
	whole.Stdin = bytes.NewReader(make([]byte, maxForeignOutputBytes))
	output = boundedBuffer{}
	whole.Stdout = &output
	if err := whole.Run(); err != nil || output.text.Len() != maxForeignOutputBytes {
		t.Errorf("%d bytes were kept, and it ended with %v", output.text.Len(), err)
	}
}
