package fastgrpc

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/fastgrpc/internal/message"
	"wirelab.dev/rpc/h2"
)

// requestHeader returns the request's header in two parts: the fields that all calls of the method
// share, and the fields of this call.
func (in *invocation) requestHeader(ctx context.Context, p *pickedConn, fields []hpack.HeaderField) (*h2.FixedFields, []hpack.HeaderField, error) {
	authority, chosen := p.conn.serverName, in.info.authority
	if a := p.metadata[":authority"]; len(a) > 0 && chosen == "" { // gRFC A81
		chosen = a[0]
	}
	if chosen != "" {
		if err := p.conn.checkAuthority(chosen); err != nil {
			return nil, nil, err
		}
		authority = chosen
	}
	fields, err := appendMetadata(fields, p.metadata)
	if err == nil {
		fields, err = appendMetadata(fields, p.conn.metadata)
	}
	if err == nil {
		fields, err = in.appendCredentials(ctx, p.conn, fields, authority)
	}
	return in.client.fixedFields(in.method, authority, &in.info), fields, err
}

// appendMetadata appends metadata to a copy of fields. It returns an error if the metadata cannot be
// sent.
func appendMetadata(fields []hpack.HeaderField, md metadata.MD) ([]hpack.HeaderField, error) {
	if len(md) == 0 {
		return fields, nil
	}
	if err := checkMetadata(md); err != nil {
		return nil, err
	}
	return wire.AppendMetadata(slices.Clip(fields), md), nil
}

// checkMetadata returns an error for metadata that cannot be sent.
func checkMetadata(md metadata.MD) error {
	if err := wire.CheckMetadata(md); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}

// checkAuthority returns an error unless the server's certificate is valid for the authority.
func (cc *clientConn) checkAuthority(authority string) error {
	v, ok := cc.peer.AuthInfo.(credentials.AuthorityValidator)
	if !ok {
		return status.Errorf(codes.Unavailable, "fastgrpc: the call sets the authority %q, but the transport credentials cannot validate it: use TLS credentials or remove the authority", authority)
	}
	if err := v.ValidateAuthority(authority); err != nil {
		return status.Errorf(codes.Unavailable, "fastgrpc: the call sets the authority %q, but the server's certificate does not match it: %v", authority, err)
	}
	return nil
}

// maxFixedFields limits the entries of a client's cache of header fields.
const maxFixedFields = 1024

// fixedFields returns the header fields that all requests of a method share.
func (c *Client) fixedFields(method, authority string, info *callInfo) *h2.FixedFields {
	key := method // needs no new string in the usual case
	if authority != c.authority || info.subtype != "" || info.compressor != nil {
		key = strings.Join([]string{method, authority, info.subtype, message.CompressorName(info.compressor)}, "\x00")
	}
	if fixed := (*c.fixed.Load())[key]; fixed != nil {
		return fixed
	}
	fixed := c.newFixedFields(method, authority, info)
	c.fixedMu.Lock()
	defer c.fixedMu.Unlock()
	if old := *c.fixed.Load(); len(old) < maxFixedFields {
		next := maps.Clone(old)
		next[key] = fixed
		c.fixed.Store(&next)
	}
	return fixed
}

func (c *Client) newFixedFields(path, authority string, info *callInfo) *h2.FixedFields {
	contentType := wire.ContentType
	if info.subtype != "" {
		contentType += "+" + info.subtype
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: c.scheme},
		{Name: ":path", Value: path},
		{Name: ":authority", Value: authority},
		{Name: wire.FieldContentType, Value: contentType},
		{Name: wire.FieldUserAgent, Value: c.opts.fullUserAgent()},
		{Name: "te", Value: "trailers"},
	}
	if info.compressor != nil {
		fields = append(fields, hpack.HeaderField{Name: wire.FieldEncoding, Value: info.compressor.Name()})
	}
	if names := message.AcceptedCompressors(c.opts.compressors, info.compressor); names != "" {
		fields = append(fields, hpack.HeaderField{Name: wire.FieldAcceptEncoding, Value: names})
	}
	return h2.NewFixedFields(fields...)
}

// variableFields returns the header fields that differ between calls. If ctx has a deadline, the
// first field is the timeout, and clientConn.openStream sets its value.
func (in *invocation) variableFields(ctx context.Context) ([]hpack.HeaderField, error) {
	var fields []hpack.HeaderField
	if ctx.Err() != nil {
		return nil, endingOf(ctx).Err
	}
	if _, ok := ctx.Deadline(); ok {
		fields = append(fields, hpack.HeaderField{Name: wire.FieldTimeout})
	}
	if n := in.retries; n > 0 {
		fields = append(fields, hpack.HeaderField{Name: wire.FieldAttempts, Value: strconv.Itoa(n)})
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	return appendMetadata(fields, md)
}

// appendCredentials adds the header fields of the client's credentials and the call's credentials.
func (in *invocation) appendCredentials(ctx context.Context, cc *clientConn, fields []hpack.HeaderField, authority string) ([]hpack.HeaderField, error) {
	all, code := cc.opts.perRPC, codes.Unauthenticated
	if in.info.creds != nil {
		all = append(slices.Clip(all), in.info.creds)
	}
	for i, creds := range all {
		if i == len(cc.opts.perRPC) {
			code = codes.Internal
		}
		md, err := rpccall.CredentialMetadata(ctx, creds, authority, credentials.RequestInfo{Method: in.method, AuthInfo: cc.peer.AuthInfo}, code)
		if err == nil {
			fields, err = appendMetadata(fields, md)
		}
		if err != nil {
			return nil, err
		}
	}
	return fields, nil
}

// checkCallCredentials returns an error if any of the credentials needs a secure connection but
// auth shows that the connection is not secure.
func checkCallCredentials(all []credentials.PerRPCCredentials, auth credentials.AuthInfo) error {
	for _, creds := range all {
		if creds.RequireTransportSecurity() && credentials.CheckSecurityLevel(auth, credentials.PrivacyAndIntegrity) != nil {
			return errors.New("the credentials of WithPerRPCCredentials need a secure connection, but this connection is not secure: use TLS credentials")
		}
	}
	return nil
}
