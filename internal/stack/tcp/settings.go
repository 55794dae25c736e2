package tcp

import (
	"fmt"
	"strconv"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/tuning"
)

// Settings implements stack.SettingsReporter. No library is involved here, so it
// lists the limits that a plain program on package net would not have.
func (s Stack) Settings(v scenario.Variant, _ stack.Target) ([]tuning.Setting, error) {
	set, err := s.settings(v)
	if err != nil {
		return nil, err
	}
	all := append(stack.MessageLimit(stack.MaxMessageBytes),
		tuning.Setting{Side: tuning.Both, Name: "metadata of a call", Value: strconv.Itoa(maxHeadBytes), Default: "no limit", Why: "what a stranger may cost before a handler runs"},
		tuning.Setting{Side: tuning.Both, Name: "messages of a stream on their way", Value: strconv.Itoa(streamWindow), Default: "no limit", Why: "a reader that stops holds its writer back, as flow control does on other stacks"},
		tuning.Setting{Side: tuning.Server, Name: "wait in the middle of a frame", Value: fmt.Sprintf("%v to %v", stallInterval, 2*stallInterval), Default: "no limit", Why: "a mute peer must not stay for ever"},
		tuning.Setting{Side: tuning.Server, Name: "bytes of a write", Value: strconv.Itoa(writeStepBytes), Default: "no limit", Why: "a slow peer is told from one that has stopped reading"},
	)
	if set.pooled {
		all = append(all, tuning.Setting{Side: tuning.Both, Name: "frame buffers kept by a connection", Value: strconv.Itoa(pooledBuffers), Default: "0", Why: "the variant's option buffers"})
	}
	return all, nil
}
