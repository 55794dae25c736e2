package http2

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/net/http2"
)

func (m *Machine) onSettings(f frame, p []byte) error {
	const settingBytes = 6
	ack := f.flags.Has(http2.FlagSettingsAck)
	switch {
	case f.id != 0:
		return m.fail(http2.ErrCodeProtocol, "SETTINGS on a stream")
	case len(p)%settingBytes != 0, ack && len(p) > 0:
		return m.fail(http2.ErrCodeFrameSize, "SETTINGS of the wrong length")
	case ack:
		return m.spend("settings")
	}
	for ; len(p) > 0; p = p[settingBytes:] {
		if err := m.onSetting(http2.SettingID(binary.BigEndian.Uint16(p)), binary.BigEndian.Uint32(p[2:])); err != nil {
			return err
		}
	}
	m.peer.settled = true
	m.answer(frame{kind: http2.FrameSettings, flags: http2.FlagSettingsAck}, nil)
	m.startWaiting()
	m.sendBodies()
	return m.spend("settings")
}

func (m *Machine) onSetting(id http2.SettingID, value uint32) error {
	switch id {
	case http2.SettingEnablePush:
		if value != 0 {
			return m.fail(http2.ErrCodeProtocol, "a server that lets itself be pushed to")
		}
	case http2.SettingMaxConcurrentStreams:
		m.peer.maxStreams = int(min(value, maxWindow))
	case http2.SettingMaxFrameSize:
		if value < minMaxFrame || value >= 1<<24 {
			return m.fail(http2.ErrCodeProtocol, fmt.Sprintf("a MAX_FRAME_SIZE of %d", value))
		}
		m.peer.maxFrame = int(value)
	case http2.SettingInitialWindowSize:
		if err := m.onInitialWindow(value); err != nil {
			return err
		}
	}
	return m.spend("settings")
}

// onInitialWindow moves the windows of all streams, perhaps below zero (RFC 9113,
// section 6.9.2).
func (m *Machine) onInitialWindow(value uint32) error {
	if value > maxWindow {
		return m.fail(http2.ErrCodeFlowControl, fmt.Sprintf("an INITIAL_WINDOW_SIZE of %d", value))
	}
	by := int64(value) - m.peer.window
	if m.peer.window = int64(value); by == 0 {
		return nil
	}
	for _, s := range m.table {
		if s == nil {
			continue
		}
		if s.window += by; s.window > maxWindow {
			return m.fail(http2.ErrCodeFlowControl, "an INITIAL_WINDOW_SIZE beyond the largest window")
		}
		m.schedule(s)
	}
	m.credit -= len(m.table) / minTable // it makes this end look at all streams
	return nil
}

func (m *Machine) onWindowUpdate(f frame, p []byte) error {
	if len(p) != 4 {
		return m.fail(http2.ErrCodeFrameSize, "WINDOW_UPDATE of the wrong length")
	}
	by := int64(binary.BigEndian.Uint32(p) & maxWindow)
	if f.id == 0 {
		if m.sendWindow += by; by == 0 || m.sendWindow > maxWindow {
			return m.fail(http2.ErrCodeFlowControl, "WINDOW_UPDATE beyond the largest window, or of nothing")
		}
	} else if s := m.find(f.id); s != nil {
		if s.window += by; by == 0 || s.window > maxWindow {
			return m.breakOff(s, "WINDOW_UPDATE beyond the largest window, or of nothing")
		}
		m.schedule(s)
	} else if m.isIdle(f.id) {
		return m.fail(http2.ErrCodeProtocol, "WINDOW_UPDATE on a stream that is not open")
	}
	m.sendBodies()
	return m.spend("window updates")
}

func (m *Machine) onPing(f frame, p []byte) error {
	switch {
	case len(p) != 8:
		return m.fail(http2.ErrCodeFrameSize, "PING of the wrong length")
	case f.id != 0:
		return m.fail(http2.ErrCodeProtocol, "PING on a stream")
	case !f.flags.Has(http2.FlagPingAck):
		m.answer(frame{kind: http2.FramePing, flags: http2.FlagPingAck}, p)
	}
	return m.spend("pings")
}

// onGoAway ends the streams that the server has not taken. The others go on.
func (m *Machine) onGoAway(f frame, p []byte) error {
	const maxQuoted = 200
	switch {
	case f.id != 0:
		return m.fail(http2.ErrCodeProtocol, "GOAWAY on a stream")
	case len(p) < 8:
		return m.fail(http2.ErrCodeFrameSize, "GOAWAY of the wrong length")
	}
	last := binary.BigEndian.Uint32(p) & maxWindow
	m.closing = true
	m.goAway = fmt.Sprintf(" with GOAWAY %s", http2.ErrCode(binary.BigEndian.Uint32(p[4:])))
	if text := p[8:]; len(text) > 0 {
		m.goAway += fmt.Sprintf(" %q", text[:min(len(text), maxQuoted)])
	}
	m.dropWaiting()
	for _, s := range m.table {
		if s != nil && s.id > last {
			m.close(s, errRefused(s.id, m.goAway))
		}
	}
	return m.spend("GOAWAYs")
}
