package record

import (
	"cmp"

	"wirelab.dev/internal/base/sum"
)

// Streams counts the held streams of a client, and all messages on them: from the first stream's
// begin to the end of the load, with the warm-up.
type Streams struct {
	Exchange string `json:"exchange"` // what a call is: answer, receive or send
	Held     int64  `json:"held"`     // number of streams at the same time
	// CallersPerStream is the number of messages that a stream may have in flight.
	CallersPerStream int64 `json:"callers_per_stream"`
	Sent             int64 `json:"sent"` // messages, without those that subscribe
	Received         int64 `json:"received"`
	// Reopened counts the streams that were opened again after their end. ClosedNS is the time
	// between the ends and the openings, of all streams.
	Reopened int64 `json:"reopened"`
	ClosedNS int64 `json:"closed_ns,omitempty"`
	// Ends counts the ends of streams by class and reason. FailedOpenings counts the attempts to open a
	// stream again that failed.
	Ends           []ErrorCount `json:"ends,omitempty"`
	FailedOpenings int64        `json:"failed_openings,omitempty"` // attempts to open a stream again that failed
	// Unmatched counts the messages that came when no caller waited for them: answers that came too
	// late, or messages that are no answers.
	Unmatched int64 `json:"unmatched,omitempty"`
	// Unread counts the messages in which an expression found no usable value.
	Unread int64 `json:"unread,omitempty"`
	// Dated says that messages hold the instant at which they were sent, from which their times count.
	Dated bool `json:"dated,omitempty"`
	// Sequence says which numbers were missing. It is absent if messages have no known numbers.
	Sequence *Sequence `json:"sequence,omitempty"`
}

// Receives says that a call waits for the server's next message. Its time is the gap since the
// message before.
func (s *Streams) Receives() bool { return s.Exchange == "receive" }

// Plus adds the counts of s and other.
func (s Streams) Plus(other Streams) Streams {
	s.Exchange = cmp.Or(s.Exchange, other.Exchange)
	s.CallersPerStream = max(s.CallersPerStream, other.CallersPerStream)
	s.Dated = s.Dated || other.Dated
	s.Held += other.Held
	s.Sent += other.Sent
	s.Received += other.Received
	s.Reopened += other.Reopened
	s.ClosedNS += other.ClosedNS
	s.Ends = PlusErrors(s.Ends, other.Ends)
	s.FailedOpenings += other.FailedOpenings
	s.Unmatched += other.Unmatched
	s.Unread += other.Unread
	s.Sequence = sum.AddPresent(s.Sequence, other.Sequence)
	return s
}

// Sequence counts what was wrong with the numbers of the messages on each stream. The first number
// after an opening is right, whatever it is.
type Sequence struct {
	Missing   int64 `json:"missing"` // numbers that never came
	Duplicate int64 `json:"duplicate,omitempty"`
	Reordered int64 `json:"reordered,omitempty"` // numbers that came after a higher one
	// Streams is the number of streams with missing numbers.
	Streams int64 `json:"streams,omitempty"`
}

// Plus adds the counts of s and other.
func (s Sequence) Plus(other Sequence) Sequence {
	s.Missing += other.Missing
	s.Duplicate += other.Duplicate
	s.Reordered += other.Reordered
	s.Streams += other.Streams
	return s
}
