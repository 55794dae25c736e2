package rest

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"wirelab.dev/internal/data/scenario"
)

func TestPathOf(t *testing.T) {
	if path, err := pathOf("/wirelab.echo.v1.EchoService/GetUser"); err != nil || path != "/get-user" {
		t.Errorf("got %q, %v", path, err)
	}
	for _, bad := range []string{"", "/", "//", "Echo", "/Echo", "Service/Echo", "/Service/"} {
		if path, err := pathOf(bad); err == nil {
			t.Errorf("%q became %q", bad, path)
		}
	}
}

func TestListenNamesBothOperationsOfOnePath(t *testing.T) {
	server, err := REST.NewServer(scenario.Variant{Stack: "rest"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	for _, service := range []string{"users.v1.Users", "users.v2.Users"} {
		server.RegisterService(&grpc.ServiceDesc{
			ServiceName: service,
			HandlerType: (*any)(nil),
			Methods:     []grpc.MethodDesc{{MethodName: "GetUser"}},
		}, struct{}{})
	}
	_, err = server.Listen(context.Background(), "127.0.0.1:0")
	for _, want := range []string{"/users.v1.Users/GetUser", "/users.v2.Users/GetUser", "/get-user"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Listen returned %v, which does not name %s", err, want)
		}
	}
}
