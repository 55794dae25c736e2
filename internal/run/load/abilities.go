package load

import "time"

// Streamer is an optional ability of a Caller. Where Streams says that its calls are streams,
// MessageTimes is how long each message of the last call's answer took. The engine reads it
// before the next call.
type Streamer interface {
	Streams() bool
	MessageTimes() []time.Duration
}

// streamerOf is the caller as a Streamer; nil if its calls are no streams.
func streamerOf(caller Caller) Streamer {
	if s, is := caller.(Streamer); is && s.Streams() {
		return s
	}
	return nil
}

// Thinker is an optional ability of a Caller: Think is how long its client waits, in a closed
// loop, from the end of the last call to the next. In an open loop, arrivals say when.
type Thinker interface {
	Think() time.Duration
}
