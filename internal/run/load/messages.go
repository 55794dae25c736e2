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

// recordMessages records the messages of a call that began in the window.
func (c *client) recordMessages() {
	if c.streamer == nil {
		return
	}
	for _, took := range c.streamer.MessageTimes() {
		c.messages.Record(int64(took))
	}
}
