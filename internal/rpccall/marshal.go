package rpccall

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"wirelab.dev/internal/batchio"
)

// MarshalOptions say how a message becomes bytes.
type MarshalOptions struct {
	Prefix int  // how many bytes to leave free before the message
	VT     bool // use vtprotobuf's methods if the message has them
}

// sizedMarshaler is what vtprotobuf generates for marshalling into given memory.
type sizedMarshaler interface {
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
}

// Marshal encodes a protobuf message straight into the buffer that is sent. The caller
// owns the buffer and fills in its prefix.
func Marshal(v any, o MarshalOptions) (*batchio.Buffer, error) {
	if m, ok := v.(sizedMarshaler); ok && o.VT {
		return marshalVT(m, o.Prefix)
	}
	m, err := Message(v)
	if err != nil {
		return nil, err
	}
	b := batchio.NewBuffer(o.Prefix + proto.Size(m))
	data, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b.Data[:o.Prefix], m)
	if err != nil {
		b.Release()
		return nil, fmt.Errorf("marshal %T: %w", v, err)
	}
	b.SetData(data)
	return b, nil
}

func marshalVT(m sizedMarshaler, prefix int) (*batchio.Buffer, error) {
	size := m.SizeVT()
	b := batchio.NewBuffer(prefix + size)
	n, err := m.MarshalToSizedBufferVT(b.Data[prefix:])
	if err == nil && n != size { // the rest holds what the buffer was used for before
		err = fmt.Errorf("%d bytes, but its size was %d: was it changed at the same time?", n, size)
	}
	if err != nil {
		b.Release()
		return nil, fmt.Errorf("marshal %T: %w", m, err)
	}
	return b, nil
}

// Message returns v as a message of package proto.
func Message(v any) (proto.Message, error) {
	switch v := v.(type) {
	case proto.Message:
		return v, nil
	case protoadapt.MessageV1:
		return protoadapt.MessageV2Of(v), nil
	}
	return nil, fmt.Errorf("message is %T, want proto.Message", v)
}
