package restjson

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/workload/users/userspb"
)

// user is one of about 0.2 KB, or of 12.6 KB.
func user(biographyBytes int) *userspb.User {
	return &userspb.User{
		Id: "user-0000042", Name: "Ada Lovelace", Email: "user-0000042@example.com", Age: 36, PaidPlan: true, CreatedAt: 1_760_000_000,
		Address: &userspb.Address{Street: "12 Hopper Street", City: "London", Postcode: "01234", Country: "XX"},
		Tags:    []string{"lambda", "machine"}, Biography: strings.Repeat("proof by gate ", biographyBytes/14),
	}
}

// BenchmarkCodec tells what the choice of a codec costs: one message encoded
// and decoded, with protobuf's own encoding beside.
func BenchmarkCodec(b *testing.B) {
	page := &userspb.GetUsersResponse{Total: 1000}
	for range 20 {
		page.Users = append(page.Users, user(28))
	}
	binary := codec{
		name: "protobuf", marshal: proto.Marshal,
		unmarshal: func(body []byte, m proto.Message) error { return proto.Unmarshal(body, m) },
	}
	for _, message := range []struct {
		name string
		proto.Message
	}{{"small", user(28)}, {"large", user(12_460)}, {"page", page}} {
		for _, c := range []codec{binary, stdCodec, protoJSON} {
			b.Run(fmt.Sprintf("message=%s/codec=%s", message.name, c.name), func(b *testing.B) {
				b.ReportAllocs()
				into := message.ProtoReflect().New().Interface()
				for b.Loop() {
					body, err := c.marshal(message.Message)
					if err != nil {
						b.Fatal(err)
					}
					if err := c.unmarshal(body, into); err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64(len(body)), "bytes")
				}
			})
		}
	}
}

// BenchmarkRouter tells what a router costs: one small user asked for, without a
// network.
func BenchmarkRouter(b *testing.B) {
	for name, router := range map[string]router{netHTTP: newMux, Gin: newGin} {
		b.Run("router="+name, func(b *testing.B) {
			var methods stack.Methods
			userspb.RegisterUserServiceServer(&methods, named{})
			routes, err := newIndex(methods.InOrder(), stdCodec)
			if err != nil {
				b.Fatal(err)
			}
			handler, err := router(routes)
			if errors.Is(err, stack.ErrUnsupported) {
				b.Skip(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				request := httptest.NewRequest(http.MethodGet, "/users/user-0000042", http.NoBody)
				handler.ServeHTTP(httptest.NewRecorder(), request)
			}
		})
	}
}
