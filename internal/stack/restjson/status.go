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

// statusClientClosed is nginx's code for a client that went away; net/http has
// no name for it.
const statusClientClosed = 499

// httpStatuses is what a handler's error becomes. What the request was not even
// understood for is 400; what was understood and breaks a rule is 422 (RFC 9110,
// sections 15.5.1 and 15.5.21).
var httpStatuses = [...]int{
	codes.OK:                 http.StatusOK,
	codes.Canceled:           statusClientClosed,
	codes.Unknown:            http.StatusInternalServerError,
	codes.InvalidArgument:    http.StatusUnprocessableEntity,
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
	codes.NotFound:           http.StatusNotFound,
	codes.AlreadyExists:      http.StatusConflict,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.FailedPrecondition: http.StatusConflict,
	codes.Aborted:            http.StatusConflict,
	codes.OutOfRange:         http.StatusUnprocessableEntity,
	codes.Unimplemented:      http.StatusNotImplemented,
	codes.Internal:           http.StatusInternalServerError,
	codes.Unavailable:        http.StatusServiceUnavailable,
	codes.DataLoss:           http.StatusInternalServerError,
	codes.Unauthenticated:    http.StatusUnauthorized,
}

func httpStatusOf(c codes.Code) int {
	if int(c) < len(httpStatuses) {
		return httpStatuses[c]
	}
	return http.StatusInternalServerError
}

// codeOf reads the status of a server that sends no problem.
func codeOf(httpStatus int) codes.Code {
	switch httpStatus {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType, http.StatusNotImplemented:
		return codes.Unimplemented // an answer of a server that does not know the call
	case http.StatusConflict:
		return codes.Aborted
	case http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge, http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return codes.DeadlineExceeded
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return codes.Unavailable
	default:
		return codes.Unknown
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
	return status.Errorf(codeOf(response.StatusCode), "rest-json: the server answered %s: %.*q", response.Status, enough, body)
}

// statusOf is the status of what a handler returned, as grpc-go has it.
func statusOf(err error) *status.Status {
	if st, is := status.FromError(err); is {
		return st
	}
	return status.FromContextError(err)
}

func errTooLarge(sizeBytes int) error {
	return status.Error(codes.ResourceExhausted, fmt.Sprintf("rest-json: a message of %d bytes is larger than the %d that are taken", sizeBytes, stack.MaxMessageBytes))
}
