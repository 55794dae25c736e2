package fastgrpc

import (
	"context"
	"strings"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// appendCredentials adds the header fields of the call's credentials. Credentials see
// the connection's security, so this picks a connection. The call may then use another
// one: all connections of a client have the same security.
func (c *Client) appendCredentials(ctx context.Context, fields []hpack.HeaderField, method string, info *callInfo) ([]hpack.HeaderField, error) {
	cc, err := c.pickConn(ctx, info.waitForReady)
	if err != nil {
		return nil, err
	}
	authInfo := cc.peer.AuthInfo
	ctx = credentials.NewContextWithRequestInfo(ctx, credentials.RequestInfo{Method: method, AuthInfo: authInfo})
	service := method
	if i := strings.LastIndexByte(method, '/'); i > 0 {
		service = method[:i]
	}
	uri := "https://" + strings.TrimSuffix(c.authority, ":443") + service
	for _, creds := range info.creds {
		if creds.RequireTransportSecurity() {
			if err := credentials.CheckSecurityLevel(authInfo, credentials.PrivacyAndIntegrity); err != nil {
				return nil, status.Errorf(codes.Unauthenticated, "fastgrpc: per-call credentials: %v", err)
			}
		}
		values, err := creds.GetRequestMetadata(ctx, uri)
		if err != nil {
			if st, ok := status.FromError(err); ok {
				return nil, st.Err()
			}
			return nil, status.Errorf(codes.Unauthenticated, "fastgrpc: per-call credentials: %v", err)
		}
		md := metadata.New(values)
		if err := validateMetadata(md); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		fields = appendMetadata(fields, md)
	}
	return fields, nil
}
