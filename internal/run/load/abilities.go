package load

import "time"

// A Streamer is a Caller whose calls may be streams. If Streams returns true, MessageTimes returns
// the time of each message of the last call's answer. The engine reads it before the next call.
type Streamer interface {
	Streams() bool
	MessageTimes() []time.Duration
}

// streamerOf returns the caller as a Streamer, or nil if its calls are no streams.
func streamerOf(caller Caller) Streamer {
	if s, is := caller.(Streamer); is && s.Streams() {
		return s
	}
	return nil
}

// A Thinker is a Caller that pauses between calls. Think returns the time that its client waits, in
// a closed loop, from the end of the last call to the next. In an open loop, arrivals decide.
type Thinker interface {
	Think() time.Duration
}
