package held

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/wire/schema"
	"wirelab.dev/internal/wire/service"
)

// fields holds the expressions over messages. Any goroutine may use it. An expression that the user
// did not give is nil.
type fields struct {
	kind                    expect.Kind
	match, sentAt, sequence *expect.Value
	method                  *schema.Method // nil unless messages are gRPC's
}

func parseFields(d *service.Definition) (*fields, error) {
	f := &fields{kind: d.Wire.Kind()}
	h := d.Holding
	for _, one := range []struct {
		flag, text string
		to         **expect.Value
	}{{"--match", h.Match, &f.match}, {"--sent-at", h.SentAt, &f.sentAt}, {"--sequence", h.Sequence, &f.sequence}} {
		if one.text == "" {
			continue
		}
		value, err := expect.ParseValue(one.text, f.kind)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.flag, err)
		}
		if uses := value.Uses(); uses.Status || uses.Latency || uses.Header {
			return nil, fmt.Errorf("%s: found %q: a message has only a body: use json(.name) or body", one.flag, one.text)
		}
		*one.to = value
	}
	if h.ReadsMessages() && len(d.Descriptors) > 0 {
		var err error
		if f.method, err = schema.Load(d.Descriptors, d.Requests[0].Path); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// A messageReader reads the fields of messages for one goroutine.
type messageReader struct {
	*fields
	look *expect.Evaluator
}

func (f *fields) newReader() *messageReader {
	return &messageReader{fields: f, look: expect.NewEvaluator()}
}

// messageFields holds what the expressions found in a message.
type messageFields struct {
	key      string
	number   *int64
	sinceNS  *int64 // since the message was sent
	unusable bool   // an expression found no usable value
}

// read reads the fields of a message of the server, which came just now.
func (r *messageReader) read(message []byte) (found messageFields) {
	if r.match == nil && r.sentAt == nil && r.sequence == nil {
		return found
	}
	if r.method != nil {
		text, err := r.method.Decode(message)
		if err != nil {
			return messageFields{unusable: true}
		}
		message = text
	}
	r.look.SetAnswer(expect.Answer{Kind: r.kind, Body: message, SizeBytes: int64(len(message))})
	var errs [3]error
	if r.match != nil {
		found.key, errs[0] = r.keyOf()
	}
	if r.sentAt != nil {
		found.sinceNS, errs[1] = r.timeSince(time.Now())
	}
	if r.sequence != nil {
		found.number, errs[2] = r.numberOf()
	}
	found.unusable = errors.Join(errs[:]...) != nil
	return found
}

// keyOfSent returns the key of a message that the client sends.
func (r *messageReader) keyOfSent(message []byte) (string, error) {
	if r.method != nil {
		text, err := r.method.DecodeRequest(message)
		if err != nil {
			return "", err
		}
		message = text
	}
	r.look.SetAnswer(expect.Answer{Kind: r.kind, Body: message, SizeBytes: int64(len(message))})
	key, err := r.keyOf()
	if err != nil {
		return "", fmt.Errorf("--match %s: the message to send has no such value: %w", r.match, err)
	}
	return key, nil
}

func (r *messageReader) keyOf() (string, error) {
	value, err := r.match.Of(r.look)
	return fmt.Sprint(value), err
}

func (r *messageReader) numberOf() (*int64, error) {
	value, err := r.sequence.Of(r.look)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseInt(fmt.Sprint(value), 10, 64) // JSON writes large numbers of gRPC as text
	return &number, err
}

// timeSince returns the time since the instant in a message. It refuses instants after now: the
// clocks of the two machines differ.
func (r *messageReader) timeSince(now time.Time) (*int64, error) {
	value, err := r.sentAt.Of(r.look)
	if err != nil {
		return nil, err
	}
	at, err := parseInstant(fmt.Sprint(value))
	since := int64(now.Sub(at))
	if err == nil && since < 0 {
		err = errors.New("the message was sent in the future")
	}
	return &since, err
}

// parseInstant reads an instant: RFC 3339, or the time since 1970 in seconds, milliseconds,
// microseconds or nanoseconds. The unit follows from the size of the number, from the year 1973 on.
func parseInstant(text string) (time.Time, error) {
	if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
		switch {
		case whole >= 1e17:
			return time.Unix(0, whole), nil
		case whole >= 1e14:
			return time.UnixMicro(whole), nil
		case whole >= 1e11:
			return time.UnixMilli(whole), nil
		case whole > 0:
			return time.Unix(whole, 0), nil
		}
	}
	if number, err := strconv.ParseFloat(text, 64); err == nil && number > 0 && number < 1e17 {
		for number >= 1e11 {
			number /= 1e3
		}
		seconds, part := math.Modf(number)
		return time.Unix(int64(seconds), int64(part*1e9)), nil
	}
	return time.Parse(time.RFC3339Nano, text)
}
