package h2

import (
	"encoding/binary"
	"math"

	"golang.org/x/net/http2"
)

// sendFirstSettings sends the Config's settings and enlarges the connection window.
func (c *Conn) sendFirstSettings() {
	settings := []http2.Setting{
		{ID: http2.SettingInitialWindowSize, Val: uint32(c.cfg.StreamWindow)},
		{ID: http2.SettingMaxFrameSize, Val: uint32(c.cfg.MaxFrameSize)},
		{ID: http2.SettingMaxHeaderListSize, Val: uint32(c.cfg.MaxHeaderList)},
	}
	switch {
	case c.cfg.Client:
		settings = append(settings, http2.Setting{ID: http2.SettingEnablePush, Val: 0})
	case c.cfg.MaxStreams < math.MaxInt32: // else there is no limit, as by default
		settings = append(settings, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(c.cfg.MaxStreams)})
	}
	c.sendSettings(settings...)
	if more := c.cfg.ConnWindow - defaultWindow; more > 0 {
		c.appendUint32(FrameHeader{Length: 4, Type: http2.FrameWindowUpdate}, uint32(more))
	}
}

func (c *Conn) sendSettings(settings ...http2.Setting) {
	c.unacked++
	payload := make([]byte, 0, 6*len(settings))
	for _, s := range settings {
		payload = binary.BigEndian.AppendUint16(payload, uint16(s.ID))
		payload = binary.BigEndian.AppendUint32(payload, s.Val)
	}
	c.appendFrame(FrameHeader{Length: len(payload), Type: http2.FrameSettings}, payload)
}

func (c *Conn) onSettings(h FrameHeader, p []byte) error {
	switch {
	case h.StreamID != 0:
		return c.fail(http2.ErrCodeProtocol, "SETTINGS on a stream")
	case h.Flags.Has(http2.FlagSettingsAck) && len(p) != 0, len(p)%6 != 0:
		return c.fail(http2.ErrCodeFrameSize, "SETTINGS of the wrong length")
	case h.Flags.Has(http2.FlagSettingsAck):
		return c.onSettingsAck()
	}
	for ; len(p) > 0; p = p[6:] {
		if err := c.onSetting(http2.SettingID(binary.BigEndian.Uint16(p)), binary.BigEndian.Uint32(p[2:])); err != nil {
			return err
		}
		// A frame can hold thousands of settings.
		if err := c.spend("settings"); err != nil {
			return err
		}
	}
	c.gotSettings = true
	before := c.Pending()
	c.appendFrame(FrameHeader{Type: http2.FrameSettings, Flags: http2.FlagSettingsAck}, nil)
	c.answered(before)
	c.sendScheduled()
	return c.spend("settings")
}

func (c *Conn) onSetting(id http2.SettingID, v uint32) error {
	switch id {
	case http2.SettingHeaderTableSize:
		c.enc.setTableLimit(v)
	case http2.SettingEnablePush:
		if v > 1 || c.cfg.Client && v != 0 {
			return c.fail(http2.ErrCodeProtocol, "bad ENABLE_PUSH")
		}
	case http2.SettingMaxConcurrentStreams:
		c.peer.maxStreams = v
	case http2.SettingInitialWindowSize:
		return c.onInitialWindow(int64(v))
	case http2.SettingMaxFrameSize:
		if v < minMaxFrameSize || v > maxMaxFrameSize {
			return c.fail(http2.ErrCodeProtocol, "bad MAX_FRAME_SIZE")
		}
		c.peer.maxFrame = int(v)
	case http2.SettingMaxHeaderListSize:
		c.peer.maxHeaderList = uint64(v)
	}
	return nil // section 6.5.2: ignore unknown settings
}

// onInitialWindow shifts every stream's window, perhaps below zero (section 6.9.2).
func (c *Conn) onInitialWindow(v int64) error {
	if v > maxWindow {
		return c.fail(http2.ErrCodeFlowControl, "INITIAL_WINDOW_SIZE too large")
	}
	if v == c.peer.initialWindow {
		return nil
	}
	if err := c.spendWalk("settings"); err != nil {
		return err
	}
	delta := v - c.peer.initialWindow
	c.peer.initialWindow = v
	overflow := false
	c.streams.each(func(s *Stream) {
		s.sendWindow += delta
		overflow = overflow || s.sendWindow > maxWindow
		c.scheduleIfSendable(s)
	})
	if overflow {
		return c.fail(http2.ErrCodeFlowControl, "INITIAL_WINDOW_SIZE overflows a stream's window")
	}
	return nil
}
