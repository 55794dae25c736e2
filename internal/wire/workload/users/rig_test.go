package users_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/users"
	"wirelab.dev/internal/wire/workload/users/userspb"
	"wirelab.dev/internal/wire/workload/workloadtest"
)

// rig is the users API over one stack.
type rig struct {
	address string
	conn    grpc.ClientConnInterface
	stub    userspb.UserServiceClient
}

// start serves over the variant, through a registrar that may look on.
func start(t *testing.T, text string, through func(grpc.ServiceRegistrar) grpc.ServiceRegistrar) rig {
	t.Helper()
	variant, err := scenario.ParseVariant(text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := catalog.Find(variant.Stack)
	if err != nil {
		t.Fatal(err)
	}
	server, err := s.NewServer(variant)
	if err != nil {
		t.Fatal(err)
	}
	p := workload.Parameters{Settings: workloadtest.Settings(t, "work=0s")}
	users.Workload{}.Register(through(server), p)
	address, err := server.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve() }() // ends with Close
	t.Cleanup(func() { _ = server.Close() })
	client, err := s.NewClient(t.Context(), variant, stack.Target{
		Address: address.String(), Operations: users.Workload{}.Info().Operations, Trust: secure.Trust{SkipVerify: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return rig{address: address.String(), conn: client, stub: userspb.NewUserServiceClient(client)}
}

func plainly(to grpc.ServiceRegistrar) grpc.ServiceRegistrar { return to }

// within bounds a call that is expected to end by itself.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// request is an HTTP request as a person with curl makes it.
type request struct {
	verb, path  string
	contentType string
	body        string
}

// An answer holds the server's answer.
type answer struct {
	status int
	header http.Header
	body   string
}

func (r rig) ask(t *testing.T, q request) answer {
	t.Helper()
	asked, err := http.NewRequestWithContext(within(t), q.verb, "http://"+r.address+q.path, strings.NewReader(q.body))
	if err != nil {
		t.Fatal(err)
	}
	if q.contentType != "" {
		asked.Header.Set("Content-Type", q.contentType)
	}
	response, err := http.DefaultClient.Do(asked)
	if err != nil {
		t.Fatalf("%s %s: %v", q.verb, q.path, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", q.verb, q.path, err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}
