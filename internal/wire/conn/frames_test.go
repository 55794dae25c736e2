package conn

import (
	"testing"

	"github.com/quic-go/quic-go/qlog"
)

func TestFramesAreCountedByKind(t *testing.T) {
	ack, ping := qlog.Frame{Frame: &qlog.AckFrame{}}, qlog.Frame{Frame: &qlog.PingFrame{}}
	stream := qlog.Frame{Frame: &qlog.StreamFrame{Length: 100}}
	for _, test := range []struct {
		name   string
		frames []qlog.Frame
		length int
		want   FrameBytes
	}{
		{"data", []qlog.Frame{stream, stream}, 240, FrameBytes{Stream: 200}},
		{"data with an acknowledgement", []qlog.Frame{ack, stream}, 140, FrameBytes{Stream: 100}},
		{"an acknowledgement alone", []qlog.Frame{ack}, 30, FrameBytes{Acks: 30, AckPackets: 1}},
		{"a probe", []qlog.Frame{ping}, 1400, FrameBytes{Probes: 1400, ProbePackets: 1}},
		{"a sign of life", []qlog.Frame{ping}, 25, FrameBytes{}},
		{"nothing", nil, 30, FrameBytes{}},
	} {
		var sent, received Frames
		sent.RecordEvent(qlog.PacketSent{Frames: test.frames, Raw: qlog.RawInfo{Length: test.length}})
		received.RecordEvent(qlog.PacketReceived{Frames: test.frames, Raw: qlog.RawInfo{Length: test.length}})
		if got, want := sent.Counts(), (FrameCounts{Sent: test.want}); got != want {
			t.Errorf("%s: sent %+v, want %+v", test.name, got, want)
		}
		if got, want := received.Counts(), (FrameCounts{Received: test.want}); got != want {
			t.Errorf("%s: received %+v, want %+v", test.name, got, want)
		}
	}
}
