package h2

import (
	"encoding/binary"
	"fmt"
)

// Preface is the client's connection preface, RFC 9113 section 3.4.
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// FrameHeaderLen is the length of every frame's header, section 4.1.
const FrameHeaderLen = 9

// FrameType is a frame's type, RFC 9113 section 6.
type FrameType uint8

// The frame types of RFC 9113 section 6, in its order.
const (
	FrameData FrameType = iota
	FrameHeaders
	FramePriority
	FrameRSTStream
	FrameSettings
	FramePushPromise
	FramePing
	FrameGoAway
	FrameWindowUpdate
	FrameContinuation
)

// The frame flags of section 6. Ack and EndStream share a bit.
const (
	FlagEndStream  = 0x1
	FlagAck        = 0x1
	FlagEndHeaders = 0x4
	FlagPadded     = 0x8
	FlagPriority   = 0x20
)

// SettingID identifies a setting, section 6.5.2.
type SettingID uint16

// The settings of section 6.5.2.
const (
	SettingHeaderTableSize      SettingID = 0x1
	SettingEnablePush           SettingID = 0x2
	SettingMaxConcurrentStreams SettingID = 0x3
	SettingInitialWindowSize    SettingID = 0x4
	SettingMaxFrameSize         SettingID = 0x5
	SettingMaxHeaderListSize    SettingID = 0x6
)

// Limits that the protocol itself sets, sections 4.2 and 6.9.
const (
	maxWindow          = 1<<31 - 1
	defaultWindow      = 65535
	minMaxFrameSize    = 1 << 14
	maxMaxFrameSize    = 1<<24 - 1
	defaultHeaderTable = 4096
)

// ErrCode is an HTTP/2 error code, section 7.
type ErrCode uint32

// The error codes of section 7.
const (
	CodeNo                 ErrCode = 0x0
	CodeProtocol           ErrCode = 0x1
	CodeInternal           ErrCode = 0x2
	CodeFlowControl        ErrCode = 0x3
	CodeSettingsTimeout    ErrCode = 0x4
	CodeStreamClosed       ErrCode = 0x5
	CodeFrameSize          ErrCode = 0x6
	CodeRefusedStream      ErrCode = 0x7
	CodeCancel             ErrCode = 0x8
	CodeCompression        ErrCode = 0x9
	CodeConnect            ErrCode = 0xa
	CodeEnhanceYourCalm    ErrCode = 0xb
	CodeInadequateSecurity ErrCode = 0xc
	CodeHTTP11Required     ErrCode = 0xd
)

var codeNames = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
	"STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR",
	"CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

// String returns the code's name in RFC 9113.
func (c ErrCode) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code %#x", uint32(c))
}

// A ConnError ends the connection. The Conn has already put the GOAWAY for it into its
// output.
type ConnError struct {
	Code   ErrCode
	Reason string
}

func (e *ConnError) Error() string {
	return fmt.Sprintf("http2: connection error %s: %s", e.Code, e.Reason)
}

// FrameHeader is the fixed part of a frame.
type FrameHeader struct {
	Length   int
	Type     FrameType
	Flags    uint8
	StreamID uint32
}

// Has reports whether every bit of flag is set.
func (h FrameHeader) Has(flag uint8) bool { return h.Flags&flag == flag }

// ParseFrameHeader reads a header; b holds at least FrameHeaderLen bytes.
func ParseFrameHeader(b []byte) FrameHeader {
	_ = b[FrameHeaderLen-1]
	return FrameHeader{
		Length:   int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		Type:     FrameType(b[3]),
		Flags:    b[4],
		StreamID: binary.BigEndian.Uint32(b[5:]) & maxWindow, // the reserved bit is ignored
	}
}

// AppendFrameHeader appends the encoded header to dst.
func AppendFrameHeader(dst []byte, h FrameHeader) []byte {
	return append(dst, byte(h.Length>>16), byte(h.Length>>8), byte(h.Length),
		byte(h.Type), h.Flags,
		byte(h.StreamID>>24), byte(h.StreamID>>16), byte(h.StreamID>>8), byte(h.StreamID))
}

// unpad strips the padding of a DATA or HEADERS frame, section 6.1.
func unpad(h FrameHeader, p []byte) ([]byte, bool) {
	if !h.Has(FlagPadded) {
		return p, true
	}
	if len(p) == 0 || int(p[0]) >= len(p) {
		return nil, false
	}
	return p[1 : len(p)-int(p[0])], true
}
