package restjson

import (
	stdjson "encoding/json"
	"fmt"
	"net/http"

	"google.golang.org/genproto/googleapis/rpc/code"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"wirelab.dev/internal/stack"
)

// httpStatusOf is the HTTP status of a handler's error. What the request was not
// even understood for is 400; what was understood and breaks a rule is 422 (RFC 9110,
// sections 15.5.1 and 15.5.21), or 409 where the rule is about what is stored.
func httpStatusOf(c codes.Code) int {
	switch c {
	case codes.InvalidArgument, codes.OutOfRange:
		return http.StatusUnprocessableEntity
	case codes.FailedPrecondition:
		return http.StatusConflict
	default:
		return stack.HTTPStatus(c)
	}
}

// problem is the body of an error.
type problem struct {
	// Code is a name of google.rpc.Code, as in NOT_FOUND.
	Code    string `json:"code"`
	Message string `json:"message"`
	// Details are messages in protobuf's JSON, each with its @type.
	Details []stdjson.RawMessage `json:"details,omitempty"`
}

// problemOf is the problem that a status is. A detail of a type that this
// program does not have is left out.
func problemOf(st *status.Status) problem {
	p := problem{Code: code.Code(st.Code()).String(), Message: st.Message()}
	for _, detail := range st.Proto().GetDetails() {
		if encoded, err := protojson.Marshal(detail); err == nil {
			p.Details = append(p.Details, encoded)
		}
	}
	return p
}

// status is the status that a problem was; false where it is none.
func (p problem) status() (*status.Status, bool) {
	number, known := code.Code_value[p.Code]
	if !known || number == int32(codes.OK) {
		return nil, false
	}
	st := &spb.Status{Code: number, Message: p.Message}
	for _, encoded := range p.Details {
		var detail anypb.Any
		if protojson.Unmarshal(encoded, &detail) == nil {
			st.Details = append(st.Details, &detail)
		}
	}
	return status.FromProto(st), true
}

// errorIn is the error that an answer other than the wanted one stands for.
func errorIn(response *http.Response, body []byte) error {
	var p problem
	if isJSON(response.Header.Get("Content-Type")) && stdjson.Unmarshal(body, &p) == nil {
		if st, ok := p.status(); ok {
			return st.Err()
		}
	}
	const enough = 200
	return status.Errorf(stack.CodeOfHTTP(response.StatusCode), "rest-json: the server answered %s: %.*q", response.Status, enough, body)
}

func errTooLarge(sizeBytes int) error {
	return status.Error(codes.ResourceExhausted, fmt.Sprintf("rest-json: a message of %d bytes is larger than the %d that are taken", sizeBytes, stack.MaxMessageBytes))
}
