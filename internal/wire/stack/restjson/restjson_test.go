package restjson

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/workload/users/userspb"
)

func TestVariants(t *testing.T) {
	for text, want := range map[string]struct {
		version httpwire.Version
		codec   string
		mode    string
	}{
		"rest-json":                       {httpwire.HTTP1, "std", "pool"},
		"rest-json:http=1,json=std":       {httpwire.HTTP1, "std", "pool"},
		"rest-json:http=2,json=protojson": {httpwire.HTTP2, "protojson", "shared"},
	} {
		o := stack.ReadOptions(Stack, parse(t, text))
		plan := plan(o)
		if codec := plan.Client(nil).(*client).codec; o.Err() != nil || plan.Version != want.version || codec.name != want.codec {
			t.Errorf("%s is read as %+v, %v, %v", text, plan, codec, o.Err())
		}
		if mode, _ := Stack.ConnectionFor(parse(t, text)); mode.String() != want.mode {
			t.Errorf("%s: connections are %s by default, want %s", text, mode, want.mode)
		}
	}
	for _, text := range []string{"rest-json:http=3", "rest-json:json=yes", "rest-json:router=chi", "rest-json:group=x25519"} {
		if _, err := Stack.NewServer(parse(t, text)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
	for _, kind := range []stack.Kind{stack.ClientStream, stack.ServerStream, stack.Bidi} {
		if err := stack.CheckKind(Stack, parse(t, "rest-json"), kind); err == nil {
			t.Errorf("%s is said to be carried", kind)
		}
	}
}

// TestCodecsKeepMessages lets each codec read what it wrote, into a message that
// holds something else.
func TestCodecsKeepMessages(t *testing.T) {
	sent := user(140)
	sent.Biography += " größer \"als\" <&> \u2028 \x01"
	for _, c := range []codec{stdCodec, protoJSON} {
		body, err := c.encode(sent)
		if err != nil {
			t.Fatal(err)
		}
		got := &userspb.User{Id: "old", Tags: []string{"old"}, Address: &userspb.Address{City: "old"}}
		if err := c.unmarshal(body, got); err != nil || !proto.Equal(got, sent) {
			t.Errorf("%s: %s came back as %v, %v", c.name, body, got, err)
		}
		if text := string(body); !strings.Contains(text, `"paid_plan":`) {
			t.Errorf("%s: the field names are not the .proto's: %s", c.name, text)
		}
	}
	if _, err := stdCodec.encode("no message"); err == nil {
		t.Error("what is no message is encoded")
	}
}

// FuzzUnmarshalStrictly takes nothing that protobuf's own JSON would not take,
// messages of plain fields provided, and keeps what it takes.
func FuzzUnmarshalStrictly(f *testing.F) {
	for _, c := range []codec{stdCodec, protoJSON} {
		body, err := c.encode(user(28))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	for _, text := range []string{"", "{}", "{} {}", "null", `{"nam":1}`, `{"age":"x"}`, `{"age":1e9}`, `[`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var m userspb.User
		if err := unmarshalStrictly(body, &m); err != nil {
			if err.Error() == "" {
				t.Error("an error without words")
			}
			return
		}
		again, err := stdCodec.marshal(&m)
		if err != nil {
			t.Fatal(err)
		}
		var back userspb.User
		if err := unmarshalStrictly(again, &back); err != nil || !proto.Equal(&m, &back) {
			t.Errorf("%s was written as %s, %v", body, again, err)
		}
	})
}

// TestProblems turns every code into a body and back.
func TestProblems(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		sent, err := status.New(code, "why").WithDetails(durationpb.New(7))
		if err != nil {
			t.Fatal(err)
		}
		p := problemOf(sent)
		got, ok := p.status()
		if !ok || !proto.Equal(got.Proto(), sent.Proto()) || httpStatusOf(code) < 400 {
			t.Errorf("%v became %+v with HTTP status %d, and then %v", sent, p, httpStatusOf(code), got)
		}
	}
	for _, p := range []problem{{}, {Code: "OK"}, {Code: "not found"}} {
		if st, ok := p.status(); ok {
			t.Errorf("%+v is taken for %v", p, st)
		}
	}
	strange := problem{Code: "ABORTED", Details: []json.RawMessage{json.RawMessage(`{"@type":"x"}`), json.RawMessage(`7`)}}
	if st, ok := strange.status(); !ok || st.Code() != codes.Aborted || len(st.Details()) != 0 {
		t.Errorf("details that are none became %v", st)
	}
	if code := codes.Code(99); httpStatusOf(code) != 500 {
		t.Errorf("code 99 is HTTP status %d", httpStatusOf(code))
	}
}

// TestRouters compares the routers where they could differ: a segment with a slash or
// dots, an unknown path, and a verb that a path does not take.
func TestRouters(t *testing.T) {
	for name, router := range map[string]router{netHTTP: newMux, Gin: newGin} {
		t.Run(name, func(t *testing.T) {
			var methods stack.Methods
			userspb.RegisterUserServiceServer(&methods, named{})
			routes, err := newIndex(methods.InOrder(), stdCodec)
			if err != nil {
				t.Fatal(err)
			}
			handler, err := router(routes)
			if errors.Is(err, stack.ErrUnsupported) {
				t.Skip(err)
			}
			for request, want := range map[string]string{
				"GET /users/a%2Fb":        `200 "a/b"`,
				"GET /users/%2E%2E":       `200 ".."`,
				"GET /nowhere":            "404 no resource for GET /nowhere; this server has",
				"PATCH /users/ada":        "405 /users/ada does not support the method PATCH",
				"DELETE /users":           "405 /users does not support the method DELETE",
				"GET /users?limt=3":       "400 did you mean limit?",
				"GET /users/ada/and/more": "404",
			} {
				verb, path, _ := strings.Cut(request, " ")
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, httptest.NewRequest(verb, path, http.NoBody))
				code, text, _ := strings.Cut(want, " ")
				if got := strconv.Itoa(answer.Code); got != code || !strings.Contains(answer.Body.String(), text) {
					t.Errorf("%s: %s %s, want %s", request, got, answer.Body, want)
				}
				if code == "405" && answer.Header().Get("Allow") == "" {
					t.Errorf("%s: the answer does not say what is allowed", request)
				}
			}
		})
	}
}

// named answers with the id that was asked for.
type named struct {
	userspb.UnimplementedUserServiceServer
}

func (named) GetUser(_ context.Context, asked *userspb.GetUserRequest) (*userspb.User, error) {
	return &userspb.User{Id: asked.GetId()}, nil
}
