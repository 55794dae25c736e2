package rpccall

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Audience returns the URI of a call's service, which call credentials get.
func Audience(authority, method string) string {
	service := method
	if i := strings.LastIndexByte(method, '/'); i >= 0 {
		service = method[:i]
	}
	return "https://" + strings.TrimSuffix(authority, ":443") + service
}

// CredentialMetadata returns the metadata that call credentials add to a call. An error
// without a status gets the code; one with a status that only servers may return (gRFC A54)
// becomes Internal.
func CredentialMetadata(ctx context.Context, creds credentials.PerRPCCredentials, audience string, code codes.Code) (metadata.MD, error) {
	values, err := creds.GetRequestMetadata(ctx, audience)
	if err != nil {
		if st, ok := status.FromError(err); ok && !IsRestricted(st.Code()) {
			return nil, st.Err()
		} else if ok {
			code = codes.Internal
		}
		return nil, status.Errorf(code, "per-call credentials: %v", err)
	}
	return metadata.New(values), nil
}

// IsRestricted reports whether only servers may return a code (gRFC A54).
func IsRestricted(code codes.Code) bool {
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted, codes.OutOfRange, codes.DataLoss:
		return true
	}
	return false
}
