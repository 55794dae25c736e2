package syscalls

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"testing"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/machine/probe"
)

// reader is a subject that reads its own usage as a worker does.
const reader = "reader"

const ownReadings = 300

// readSelf takes one reading, and ownReadings more when its input says so. It prints their own system calls.
func readSelf() int {
	var one [1]byte
	read := probe.WithStoppedTime(probe.ReadSelf)
	first, err := read()
	if _, err2 := os.Stdout.Write(one[:]); errors.Join(err, err2) != nil {
		return 1
	}
	_, _ = os.Stdin.Read(one[:])
	last := first
	for range ownReadings {
		if last, err = read(); err != nil {
			return 1
		}
	}
	if json.NewEncoder(os.Stdout).Encode(last.Since(first).Own) != nil {
		return 1
	}
	_, _ = os.Stdin.Read(one[:])
	return 0
}

// TestReadingsCountTheirOwnCalls: the kernel counts as many.
func TestReadingsCountTheirOwnCalls(t *testing.T) {
	watch := orSkip(t, startBPFCounter)
	subject := exec.CommandContext(t.Context(), os.Args[0])
	subject.Env = append(os.Environ(), "WIRELAB_SUBJECT="+reader)
	input, err := subject.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := subject.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := subject.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := watch.AddProcess(probe.Server, subject.Process.Pid); err != nil {
		t.Fatal(err)
	}
	begin := clock.Now()
	watch.readings.ReadNow()
	if _, err := input.Write([]byte("1")); err != nil {
		t.Fatal(err)
	}
	var own probe.OwnCalls
	if err := json.NewDecoder(output).Decode(&own); err != nil {
		t.Fatal(err)
	}
	watch.readings.ReadNow()
	end := clock.Now()
	if err := errors.Join(input.Close(), subject.Wait()); err != nil {
		t.Fatal(err)
	}
	findings, err := watch.Stop(probe.MeasuredWindow{Span: probe.Span{BeginNS: begin, EndNS: end, Alone: true}})
	if err != nil {
		t.Fatal(err)
	}
	if own.Preads < ownReadings || own.Fstats < ownReadings || own.Usages != ownReadings || own.Clocks < 3*ownReadings {
		t.Errorf("%d readings took %+v", ownReadings, own)
	}
	for name, count := range own.ByName() {
		if found := find(findings.Server, name); found.Count != count {
			t.Errorf("the kernel counted %d calls of %s, the readings %d", found.Count, name, count)
		}
	}
	findings.Server.SubtractSyscalls(own.ByName())
	for name := range own.ByName() {
		if found := find(findings.Server, name); found.Count != 0 {
			t.Errorf("%d calls of %s are left", found.Count, name)
		}
	}
}
