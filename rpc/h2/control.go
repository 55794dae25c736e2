package h2

import (
	"encoding/binary"
	"math"
	"time"

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
	case c.cfg.MaxStreams < math.MaxInt32: // otherwise send no setting, which means no limit
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
		return c.failConn(http2.ErrCodeProtocol, "SETTINGS on a stream")
	case h.Flags.Has(http2.FlagSettingsAck) && len(p) != 0, len(p)%6 != 0:
		return c.failConn(http2.ErrCodeFrameSize, "SETTINGS of the wrong length")
	case h.Flags.Has(http2.FlagSettingsAck):
		return c.onSettingsAck()
	}
	for ; len(p) > 0; p = p[6:] {
		if err := c.onSetting(http2.SettingID(binary.BigEndian.Uint16(p)), binary.BigEndian.Uint32(p[2:])); err != nil {
			return err
		}
		// Each setting takes credit, because a frame can hold thousands of settings.
		if err := c.spend("settings"); err != nil {
			return err
		}
	}
	c.gotSettings = true
	before := c.Pending()
	c.appendFrame(FrameHeader{Type: http2.FrameSettings, Flags: http2.FlagSettingsAck}, nil)
	c.countAnswer(before)
	c.sendScheduled()
	return c.spend("settings")
}

func (c *Conn) onSetting(id http2.SettingID, v uint32) error {
	switch id {
	case http2.SettingHeaderTableSize:
		c.enc.setTableLimit(v)
	case http2.SettingEnablePush:
		if v > 1 || c.cfg.Client && v != 0 {
			return c.failConn(http2.ErrCodeProtocol, "bad ENABLE_PUSH")
		}
	case http2.SettingMaxConcurrentStreams:
		c.peer.maxStreams = v
	case http2.SettingInitialWindowSize:
		return c.onInitialWindow(int64(v))
	case http2.SettingMaxFrameSize:
		if v < minMaxFrameSize || v > maxMaxFrameSize {
			return c.failConn(http2.ErrCodeProtocol, "bad MAX_FRAME_SIZE")
		}
		c.peer.maxFrame = int(v)
	case http2.SettingMaxHeaderListSize:
		c.peer.maxHeaderList = uint64(v)
	}
	return nil // ignore unknown settings (section 6.5.2)
}

// onInitialWindow changes every stream's window, perhaps to less than zero (section 6.9.2).
func (c *Conn) onInitialWindow(v int64) error {
	if v > maxWindow {
		return c.failConn(http2.ErrCodeFlowControl, "INITIAL_WINDOW_SIZE too large")
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
		return c.failConn(http2.ErrCodeFlowControl, "INITIAL_WINDOW_SIZE overflows a stream's window")
	}
	return nil
}

func (c *Conn) onPriority(h FrameHeader, p []byte) error {
	switch {
	case h.StreamID == 0:
		return c.failConn(http2.ErrCodeProtocol, "PRIORITY on stream 0")
	case len(p) != 5:
		return c.failConn(http2.ErrCodeFrameSize, "PRIORITY of the wrong length")
	case binary.BigEndian.Uint32(p)&maxWindow == h.StreamID:
		return c.failConn(http2.ErrCodeProtocol, "stream depends on itself")
	}
	return c.spend("priorities")
}

func (c *Conn) onPing(now time.Duration, h FrameHeader, p []byte) error {
	switch {
	case len(p) != 8:
		return c.failConn(http2.ErrCodeFrameSize, "PING of the wrong length")
	case h.StreamID != 0:
		return c.failConn(http2.ErrCodeProtocol, "PING on a stream")
	case h.Flags.Has(http2.FlagPingAck):
		c.handler.OnPong([8]byte(p))
		if subtract(&c.budget.pongs, 1) {
			return nil
		}
		return c.spend("pongs")
	}
	before := c.Pending()
	c.appendFrame(FrameHeader{Length: 8, Type: http2.FramePing, Flags: http2.FlagPingAck}, p)
	c.countAnswer(before)
	if err := c.handler.OnPing(now); err != nil {
		return c.failConn(err.Code, err.Reason)
	}
	return c.spend("pings")
}

func (c *Conn) onGoAway(h FrameHeader, p []byte) error {
	switch {
	case h.StreamID != 0:
		return c.failConn(http2.ErrCodeProtocol, "GOAWAY on a stream")
	case len(p) < 8:
		return c.failConn(http2.ErrCodeFrameSize, "GOAWAY too short")
	}
	last := binary.BigEndian.Uint32(p) & maxWindow
	code := http2.ErrCode(binary.BigEndian.Uint32(p[4:]))
	c.goAwayReceived = true
	c.handler.OnGoAway(code, p[8:])
	if c.cfg.Client && last < c.goAwayLast {
		if err := c.spendWalk("GOAWAYs"); err != nil {
			return err
		}
		c.goAwayLast = last
		c.streams.each(func(s *Stream) {
			if s.id > last {
				c.remove(s)
				c.handler.OnReset(s, Reset{Code: http2.ErrCodeRefusedStream, Reason: "connection going away", Unprocessed: true})
			}
		})
	}
	return c.spend("GOAWAYs")
}

func (c *Conn) onWindowUpdate(h FrameHeader, p []byte) error {
	if len(p) != 4 {
		return c.failConn(http2.ErrCodeFrameSize, "WINDOW_UPDATE of the wrong length")
	}
	n := int64(binary.BigEndian.Uint32(p) & maxWindow)
	if h.StreamID == 0 {
		c.sendWindow += n
		if n == 0 || c.sendWindow > maxWindow {
			return c.failConn(windowErrCode(n), "connection WINDOW_UPDATE of 0, or beyond the largest window")
		}
	} else if s := c.streams.get(h.StreamID); s != nil {
		s.sendWindow += n
		if n == 0 || s.sendWindow > maxWindow {
			return c.streamError(s, windowErrCode(n), "WINDOW_UPDATE of 0, or beyond the largest window")
		}
		c.scheduleIfSendable(s)
	} else if c.isIdle(h.StreamID) {
		return c.failConn(http2.ErrCodeProtocol, "WINDOW_UPDATE on an idle stream")
	}
	c.sendScheduled()
	if subtract(&c.budget.updates, 1) {
		return nil
	}
	return c.spend("window updates")
}

func windowErrCode(increment int64) http2.ErrCode {
	if increment == 0 {
		return http2.ErrCodeProtocol
	}
	return http2.ErrCodeFlowControl
}

// Ping sends a ping; OnPong gets the answer with the same data.
func (c *Conn) Ping(data [8]byte) {
	c.budget.pongs++
	c.appendFrame(FrameHeader{Length: 8, Type: http2.FramePing}, data[:])
}

// AnnounceGoAway tells the peer that GoAway will follow, but still accepts all streams. These are
// the two steps of a graceful end (section 6.8).
func (c *Conn) AnnounceGoAway() { c.sendGoAway(maxWindow, http2.ErrCodeNo, "") }

// GoAway tells the peer that this end accepts no more streams.
func (c *Conn) GoAway(code http2.ErrCode, reason string) { c.sendGoAway(c.lastPeerID, code, reason) }

// sendGoAway sends the identifier of the last stream that this end accepts, which never rises.
func (c *Conn) sendGoAway(last uint32, code http2.ErrCode, reason string) {
	c.goAwaySent = true
	last = min(last, c.goAwayLimit)
	c.goAwayLimit = last
	payload := binary.BigEndian.AppendUint32(nil, last)
	payload = binary.BigEndian.AppendUint32(payload, uint32(code))
	payload = append(payload, reason...)
	c.appendFrame(FrameHeader{Length: len(payload), Type: http2.FrameGoAway}, payload)
}
