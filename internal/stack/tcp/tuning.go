package tcp

import (
	"fmt"
	"strconv"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/tuning"
)

// Settings implements stack.Tuned. There is no library here whose defaults could
// differ: what is listed is what a program on package net has not got by itself.
func (s Stack) Settings(v scenario.Variant, _ stack.Target) ([]tuning.Setting, error) {
	set, err := s.settings(v)
	if err != nil {
		return nil, err
	}
	all := append(stack.MessageLimit(stack.MaxMessageBytes),
		tuning.Setting{Side: tuning.Both, Name: "metadata of a call", Value: strconv.Itoa(maxHeadBytes), Default: "no limit", Why: "what a stranger may cost before a handler runs"},
		tuning.Setting{Side: tuning.Both, Name: "messages of a stream on their way", Value: strconv.Itoa(streamWindow), Default: "no limit", Why: "a reader that stops holds its writer back, as flow control does on other stacks"},
		tuning.Setting{Side: tuning.Server, Name: "wait in the middle of a frame", Value: fmt.Sprintf("%v to %v", patrolEvery, 2*patrolEvery), Default: "no limit", Why: "a mute peer must not stay for ever"},
		tuning.Setting{Side: tuning.Server, Name: "bytes of a write", Value: strconv.Itoa(writeStepBytes), Default: "no limit", Why: "a slow peer is told from one that has stopped reading"},
	)
	if set.pooled {
		all = append(all, tuning.Setting{Side: tuning.Both, Name: "frame buffers kept by a connection", Value: strconv.Itoa(shelfBuffers), Default: "0", Why: "the variant's option buffers"})
	}
	return all, nil
}
