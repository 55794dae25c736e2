package prepared

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"

	"wirelab.dev/rpc/h2"
)

// An answerHead holds the fields of a header or of trailers that a call needs.
type answerHead struct {
	status      int   // 0 if there is none
	length      int64 // Content-Length, or noLength
	grpcStatus  int   // or noStatus
	grpcMessage string
	grpc        bool   // the content-type is one of gRPC's
	bad         string // describes a malformed field
}

const (
	noLength = -1
	noStatus = -1
)

// readHead returns the fields of a block. The result may be the copy that is kept with
// the block's cached fields, so the caller must not change it. Otherwise it is in scratch.
func readHead(block *h2.Block, scratch *answerHead) *answerHead {
	fixed := &emptyHead
	if block.Fixed != nil {
		fixed = readFixedHead(block.Fixed)
	}
	if len(block.Rest) == 0 {
		return fixed
	}
	*scratch = *fixed
	for _, f := range block.Rest {
		scratch.add(f)
	}
	return scratch
}

var emptyHead = answerHead{length: noLength, grpcStatus: noStatus}

func readFixedHead(set *h2.FieldSet) *answerHead {
	if head, ok := set.Memo.(*answerHead); ok {
		return head
	}
	head := new(answerHead)
	*head = emptyHead
	for _, f := range set.Fields {
		head.add(f)
	}
	set.Memo = head
	return head
}

func (h *answerHead) add(f hpack.HeaderField) {
	switch f.Name {
	case ":status":
		status, err := strconv.Atoi(f.Value)
		if err != nil || len(f.Value) != 3 || status < 100 {
			h.bad = fmt.Sprintf("the status %.20q", f.Value)
			return
		}
		h.status = status
	case "content-length":
		n, err := strconv.ParseUint(f.Value, 10, 63)
		if err != nil {
			h.bad = fmt.Sprintf("the content-length %.20q", f.Value)
			return
		}
		h.length = int64(n)
	case "content-type":
		rest, is := strings.CutPrefix(f.Value, "application/grpc")
		h.grpc = is && (rest == "" || rest[0] == '+' || rest[0] == ';')
	case "grpc-status":
		code, err := strconv.ParseUint(f.Value, 10, 31)
		if err != nil {
			h.bad = fmt.Sprintf("the grpc-status %.20q", f.Value)
			return
		}
		h.grpcStatus = int(code)
	case "grpc-message":
		h.grpcMessage = f.Value
		if decoded, err := url.PathUnescape(f.Value); err == nil {
			h.grpcMessage = decoded
		}
	}
}
