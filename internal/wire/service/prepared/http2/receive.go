package http2

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/net/http2"

	"wirelab.dev/internal/base/failure"
)

// maxBlock bounds a header block that comes in several frames.
const maxBlock = 256 << 10

// Credit bounds frames that are of no use, such as pings, settings, or what comes for
// streams that have ended. Calls earn more than what servers send beside their answers.
const (
	firstCredit     = 10_000
	maxCredit       = 1 << 20
	creditPerCall   = 16
	bytesPerCredit  = 128     // of bodies: servers update windows for as little
	creditPerCancel = 200_000 // what is on its way has no use any more
)

func (m *Machine) earn(n int) { m.credit = min(maxCredit, m.credit+n) }

func (m *Machine) spend(what string) error {
	if m.credit--; m.credit < 0 {
		return m.fail(http2.ErrCodeEnhanceYourCalm, "it sends too many "+what)
	}
	return nil
}

// fail ends the connection, because the server has broken the protocol.
func (m *Machine) fail(code http2.ErrCode, what string) error {
	m.closing = true
	var payload [8]byte // the last stream of the server: none
	binary.BigEndian.PutUint32(payload[4:], uint32(code))
	m.answer(frame{kind: http2.FrameGoAway}, payload[:])
	err := fmt.Errorf("the server does not keep to HTTP/2: %s (%w)", what, http2.ConnectionError(code))
	if code == http2.ErrCodeFlowControl {
		return err
	}
	return failure.As(failure.WrongProtocol, err)
}

// FrameLen implements batchio.Machine.
func (m *Machine) FrameLen(buf []byte) int {
	if len(buf) < frameHeader {
		return frameHeader
	}
	return frameHeader + min(lengthOf(buf), maxFrame)
}

// Feed implements batchio.Machine.
func (m *Machine) Feed(_ time.Duration, buf []byte, maxFrames int) (used int, err error) {
	if !m.peer.settled {
		if err := m.checkFirst(buf); err != nil {
			return 0, err
		}
	}
	for range maxFrames {
		rest := buf[used:]
		if len(rest) < frameHeader {
			break
		}
		f := parseFrame(rest)
		if f.length > maxFrame {
			return used, m.fail(http2.ErrCodeFrameSize, fmt.Sprintf("a frame of %d bytes", f.length))
		}
		if len(rest) < frameHeader+f.length {
			break
		}
		if err := m.onFrame(f, rest[frameHeader:frameHeader+f.length]); err != nil {
			return used, err
		}
		used += frameHeader + f.length
	}
	return used, nil
}

// checkFirst looks whether the server speaks HTTP/2 at all.
func (m *Machine) checkFirst(buf []byte) error {
	switch {
	case bytes.HasPrefix(buf, []byte("\x15\x03")): // a TLS record with an alert (RFC 8446, section 5.1)
		return failure.As(failure.PlaintextPeer, fmt.Errorf("the server speaks TLS, and this client cleartext"))
	case len(buf) < frameHeader:
		return nil
	case bytes.HasPrefix(buf, []byte("HTTP/")):
		line, _, _ := bytes.Cut(buf, []byte("\r\n"))
		return failure.As(failure.WrongProtocol, fmt.Errorf("the server does not speak HTTP/2: it answered %.60q", line))
	}
	if f := parseFrame(buf); f.kind != http2.FrameSettings || f.flags.Has(http2.FlagSettingsAck) || f.length > maxFrame {
		return failure.As(failure.WrongProtocol, fmt.Errorf("the server does not speak HTTP/2: it begins with %.40q, and not with SETTINGS", buf))
	}
	return nil
}

func (m *Machine) onFrame(f frame, p []byte) error {
	if m.partial.id != 0 && (f.kind != http2.FrameContinuation || f.id != m.partial.id) {
		return m.fail(http2.ErrCodeProtocol, "a header block is interrupted")
	}
	switch f.kind {
	case http2.FrameData:
		return m.onData(f, p)
	case http2.FrameHeaders:
		return m.onHeaders(f, p)
	case http2.FrameContinuation:
		return m.onContinuation(f, p)
	case http2.FrameRSTStream:
		return m.onReset(f, p)
	case http2.FrameSettings:
		return m.onSettings(f, p)
	case http2.FramePing:
		return m.onPing(f, p)
	case http2.FrameGoAway:
		return m.onGoAway(f, p)
	case http2.FrameWindowUpdate:
		return m.onWindowUpdate(f, p)
	case http2.FramePushPromise:
		return m.fail(http2.ErrCodeProtocol, "it pushes, which was switched off")
	}
	return m.spend("frames of no use") // priorities, and unknown ones (section 4.1)
}

// isIdle reports whether no stream of this number was opened.
func (m *Machine) isIdle(id uint32) bool { return id == 0 || id%2 == 0 || id >= m.nextID }

// unpad returns a frame's content without its padding.
func unpad(f frame, p []byte) ([]byte, bool) {
	if !f.flags.Has(http2.FlagDataPadded) { // the same for HEADERS
		return p, true
	}
	if len(p) == 0 || int(p[0]) >= len(p) {
		return nil, false
	}
	return p[1 : len(p)-int(p[0])], true
}

func (m *Machine) onData(f frame, p []byte) error {
	data, ok := unpad(f, p)
	switch m.recvWindow -= int64(f.length); {
	case m.isIdle(f.id):
		return m.fail(http2.ErrCodeProtocol, "DATA on a stream that is not open")
	case !ok:
		return m.fail(http2.ErrCodeProtocol, "padding longer than its frame")
	case m.recvWindow < 0:
		return m.fail(http2.ErrCodeFlowControl, "DATA beyond the window")
	case m.recvWindow < maxWindow-creditAt:
		m.answerNumber(frame{kind: http2.FrameWindowUpdate}, uint32(maxWindow-m.recvWindow))
		m.recvWindow = maxWindow
	}
	s := m.find(f.id)
	if s == nil {
		return m.spend("DATA frames of calls that have ended")
	}
	end := f.flags.Has(http2.FlagDataEndStream)
	if len(data) == 0 && !end {
		return m.spend("empty DATA frames")
	}
	if s.state != answering {
		return m.breakOff(s, "DATA before the header")
	}
	if s.received += int64(f.length); s.received > creditAt && !end {
		m.answerNumber(frame{kind: http2.FrameWindowUpdate, id: s.id}, uint32(s.received))
		s.received = 0
	}
	if err := s.onData(m.config.Kind, data); err != nil {
		return m.breakOff(s, err.Error())
	}
	if end {
		m.finish(s, nil)
	}
	return nil
}

// breakOff ends a call whose answer is malformed.
func (m *Machine) breakOff(s *Stream, what string) error {
	m.answerNumber(frame{kind: http2.FrameRSTStream, id: s.id}, uint32(http2.ErrCodeProtocol))
	m.close(s, failure.As(failure.WrongProtocol, fmt.Errorf("the server's answer is malformed: %s", what)))
	return m.spend("malformed answers")
}

// finish ends a call with its answer.
func (m *Machine) finish(s *Stream, trailers *fields) {
	if len(s.unsent) > 0 { // the server has answered without waiting for it
		m.answerNumber(frame{kind: http2.FrameRSTStream, id: s.id}, uint32(http2.ErrCodeCancel))
	}
	m.close(s, s.complete(m.config.Kind, trailers))
}

func (m *Machine) onHeaders(f frame, p []byte) error {
	block, ok := unpad(f, p)
	if f.flags.Has(http2.FlagHeadersPriority) {
		const priority = 5
		if ok = ok && len(block) >= priority; ok {
			block = block[priority:]
		}
	}
	switch {
	case m.isIdle(f.id):
		return m.fail(http2.ErrCodeProtocol, "HEADERS on a stream that is not open")
	case !ok:
		return m.fail(http2.ErrCodeProtocol, "HEADERS too short for their flags")
	case f.flags.Has(http2.FlagHeadersEndHeaders):
		return m.onBlock(f.id, f.flags, block)
	}
	m.partial.id, m.partial.flags = f.id, f.flags
	m.partial.block = append(m.partial.block[:0], block...)
	return nil
}

func (m *Machine) onContinuation(f frame, p []byte) error {
	switch {
	case m.partial.id == 0:
		return m.fail(http2.ErrCodeProtocol, "CONTINUATION without HEADERS")
	case len(m.partial.block)+len(p) > maxBlock:
		return m.fail(http2.ErrCodeEnhanceYourCalm, fmt.Sprintf("a header of more than %d bytes", maxBlock))
	}
	m.partial.block = append(m.partial.block, p...)
	if !f.flags.Has(http2.FlagContinuationEndHeaders) {
		return m.spend("CONTINUATION frames")
	}
	id, block := m.partial.id, m.partial.block
	m.partial.id, m.partial.block = 0, nil
	return m.onBlock(id, m.partial.flags, block)
}

// maxInterim bounds the interim answers (1xx) to a call.
const maxInterim = 100

// onBlock handles a header, an interim one, or trailers. Blocks for streams that have ended
// are decoded, too, for the table.
func (m *Machine) onBlock(id uint32, flags http2.Flags, block []byte) error {
	got, err := m.decoder.decode(block)
	if err != nil {
		return m.fail(http2.ErrCodeCompression, err.Error())
	}
	s := m.find(id)
	end := flags.Has(http2.FlagHeadersEndStream)
	switch {
	case s == nil:
		return m.spend("headers of calls that have ended")
	case got.bad != "":
		return m.breakOff(s, got.bad)
	case s.state == answering && (got.status != 0 || !end):
		return m.breakOff(s, "a second header")
	case s.state == answering:
		m.finish(s, got)
		return nil
	case got.status == 0:
		return m.breakOff(s, "a header without status")
	case got.status < http.StatusOK:
		if s.interim++; end || s.interim > maxInterim {
			return m.breakOff(s, "interim answers that never end")
		}
		return m.spend("interim answers")
	}
	s.state, s.header = answering, *got
	if s.declared = got.declared; s.request.Head || got.status == http.StatusNotModified {
		s.declared = -1 // it speaks of a body that is not sent
	}
	if end {
		m.finish(s, got)
	}
	return nil
}

func (m *Machine) onReset(f frame, p []byte) error {
	switch {
	case len(p) != 4:
		return m.fail(http2.ErrCodeFrameSize, "RST_STREAM of the wrong length")
	case m.isIdle(f.id):
		return m.fail(http2.ErrCodeProtocol, "RST_STREAM on a stream that is not open")
	}
	if s := m.find(f.id); s != nil {
		m.close(s, errReset(f.id, http2.ErrCode(binary.BigEndian.Uint32(p))))
		return nil
	}
	return m.spend("resets of calls that have ended")
}
