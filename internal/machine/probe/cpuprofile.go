package probe

import (
	"bytes"
	"fmt"
	"runtime/pprof"

	"github.com/google/pprof/profile"

	"wirelab.dev/internal/data/record"
)

// ProfilesPerSecond is the rate of Go's own profile; pprof.StartCPUProfile knows no other.
const ProfilesPerSecond = 100

// CPUProfile samples the calling process's stacks on a CPU as the Go runtime can, which
// sees nothing of the kernel, but works where the kernel refuses to tell.
type CPUProfile struct{ text bytes.Buffer }

// StartCPUProfile starts it. There can be one at a time.
func StartCPUProfile() (*CPUProfile, error) {
	p := &CPUProfile{}
	if err := pprof.StartCPUProfile(&p.text); err != nil {
		return nil, fmt.Errorf("sample the CPU time: %w", err)
	}
	return p, nil
}

// Stop returns the stacks since StartCPUProfile.
func (p *CPUProfile) Stop() (*record.Stacks, error) {
	pprof.StopCPUProfile()
	return parseProfile(p.text.Bytes())
}

// parseProfile reads a profile of CPU time: the values of a sample are their number, and
// their nanoseconds.
func parseProfile(text []byte) (*record.Stacks, error) {
	parsed, err := profile.ParseData(text)
	if err != nil {
		return nil, fmt.Errorf("parse a profile: %w", err)
	}
	if len(parsed.SampleType) != 2 || parsed.SampleType[1].Unit != "nanoseconds" {
		return nil, fmt.Errorf("parse a profile: its values are not those of CPU time")
	}
	stacks := newStacks("ns")
	for _, sample := range parsed.Sample {
		var frames []int
		for _, location := range sample.Location {
			for _, line := range location.Line {
				if line.Function != nil {
					frames = append(frames, stacks.frame(record.Frame{Function: line.Function.Name}))
				}
			}
		}
		stacks.add(frames, sample.Value[1], sample.Value[0])
	}
	return stacks.Done(), nil
}
