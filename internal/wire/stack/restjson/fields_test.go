package restjson

import (
	"net/url"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/route"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
	"wirelab.dev/internal/wire/workload/users/userspb"
)

func routeOf(t *testing.T, method string) route.Route {
	t.Helper()
	r, err := route.ForMethod(method)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFieldsFindTheirWay puts fields into a location and takes them out again.
func TestFieldsFindTheirWay(t *testing.T) {
	for _, test := range []struct {
		method  string
		request proto.Message
		want    string
	}{
		{userspb.UserService_GetUser_FullMethodName, &userspb.GetUserRequest{Id: "ada-1"}, "/users/ada-1"},
		{userspb.UserService_GetUser_FullMethodName, &userspb.GetUserRequest{Id: "a/b c?ü"}, "/users/a%2Fb%20c%3F%C3%BC"},
		{userspb.UserService_GetUser_FullMethodName, &userspb.GetUserRequest{Id: ".."}, "/users/%2E%2E"},
		{userspb.UserService_GetUsers_FullMethodName, &userspb.GetUsersRequest{}, "/users"},
		{userspb.UserService_GetUsers_FullMethodName, &userspb.GetUsersRequest{Limit: -3, Offset: 7}, "/users?limit=-3&offset=7"},
		{userspb.UserService_CreateUser_FullMethodName, &userspb.CreateUserRequest{Id: "in the body"}, "/users"},
		{testpb.TestService_Unary_FullMethodName, &testpb.TestRequest{}, "/unary"},
	} {
		r := routeOf(t, test.method)
		at, err := urlOf(r, test.request)
		if err != nil || at != test.want {
			t.Errorf("%v is at %s, %v; want %s", test.request, at, err, test.want)
			continue
		}
		if r.InBody {
			continue
		}
		parsed, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		got := test.request.ProtoReflect().New().Interface()
		inPath := func(string) string { return strings.TrimPrefix(parsed.Path, "/users/") }
		if err := fillRequest(r, got, inPath, parsed.Query()); err != nil || !proto.Equal(got, test.request) {
			t.Errorf("%s came back as %v, %v; want %v", at, got, err, test.request)
		}
	}
}

func TestFieldsWithoutAPlace(t *testing.T) {
	if at, err := urlOf(routeOf(t, userspb.UserService_GetUser_FullMethodName), &userspb.GetUserRequest{}); err == nil {
		t.Errorf("an empty id is at %s, which is all users", at)
	}
	list := routeOf(t, userspb.UserService_GetUsers_FullMethodName)
	if at, err := urlOf(list, &userspb.GetUsersResponse{Users: []*userspb.User{{}}}); err == nil {
		t.Errorf("a list of messages is at %s", at)
	}
	for says, query := range map[string]url.Values{
		"did you mean limit?": {"limt": {"3"}},
		"whole number":        {"limit": {"9999999999"}},
		"2 values":            {"limit": {"1", "2"}},
	} {
		err := fillRequest(list, &userspb.GetUsersRequest{}, nil, query)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", query, err, says)
		}
	}
}
