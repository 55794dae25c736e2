package restjson

import (
	stdjson "encoding/json"
	"net/http"

	"google.golang.org/genproto/googleapis/rpc/code"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"wirelab.dev/internal/wire/stack"
)

// httpStatusOf returns the HTTP status of a handler's error. A request that could be read
// but breaks a rule gets 422, or 409 if the rule is about what is stored; 400 is for
// requests that cannot be read (RFC 9110, sections 15.5.1, 15.5.10 and 15.5.21).
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

// problemOf returns the body for a status. It leaves out details of a type that this
// program does not have.
func problemOf(st *status.Status) problem {
	p := problem{Code: code.Code(st.Code()).String(), Message: st.Message()}
	for _, detail := range st.Proto().GetDetails() {
		if encoded, err := protojson.Marshal(detail); err == nil {
			p.Details = append(p.Details, encoded)
		}
	}
	return p
}

// status returns the status that the problem was made from, if it was made from one.
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

// errorIn returns the error of an answer with another status than the route's.
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
