package selftest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/workload/echo/echopb"
)

// early is another server for echo over rest. As a lie it answers as soon as it has read the id,
// with the data of an earlier request.
type early struct {
	Lie bool `json:"lie"`

	known atomic.Pointer[[]byte] // data of an earlier request
}

func (e *early) play(ctx context.Context, ready func(string)) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: e}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	ready(listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP answers an echo.
func (e *early) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := e.answer(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = w.Write(answer)
}

func (e *early) answer(body io.Reader) ([]byte, error) {
	if known := e.known.Load(); known != nil {
		var head [16]byte
		if _, err := io.ReadFull(body, head[:]); err != nil {
			return nil, err
		}
		id, err := idOf(head[:])
		if err != nil {
			return nil, err
		}
		return proto.Marshal(&echopb.Payload{Id: id, Data: *known})
	}
	whole, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	var in echopb.Payload
	if err := proto.Unmarshal(whole, &in); err != nil {
		return nil, err
	}
	if e.Lie {
		e.known.Store(&in.Data)
	}
	return proto.Marshal(&in)
}

// idOf reads the id of an echo from its beginning: field 1, a varint.
func idOf(head []byte) (uint64, error) {
	number, kind, tag := protowire.ConsumeTag(head)
	if number != 1 || kind != protowire.VarintType {
		return 0, errors.New("a payload begins with its id")
	}
	id, n := protowire.ConsumeVarint(head[tag:])
	return id, protowire.ParseError(min(n, 0))
}
