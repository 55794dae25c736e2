package swap

import (
	"slices"
	"strings"
	"testing"
)

const before = `package main

import (
	"context"

	// A comment.
	"google.golang.org/grpc"
	pb "example.com/pb"
)

func intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoke(ctx, method, req, reply, cc, opts...)
}

func dial(opts []grpc.DialOption) (*grpc.ClientConn, error) {
	opts = append(opts, grpc.WithUnaryInterceptor(intercept), grpc.WithChainUnaryInterceptor())
	return grpc.NewClient("x", opts...)
}

func serve() {
	s := grpc.NewServer(grpc.Creds(nil), grpc.ChainUnaryInterceptor())
	pb.Register(s)
}
`

// TestSource checks that constructors become fastgrpc's, that types of interceptors and of
// calls stay grpc-go's, and that any other name is reported unless fastgrpc has it too.
func TestSource(t *testing.T) {
	r := &Rewriter{
		options: map[string]bool{"Creds": true, "ChainUnaryInterceptor": true, "WithUnaryInterceptor": true, "WithChainUnaryInterceptor": true},
		fast:    map[string]bool{"Creds": true, "WithUnaryInterceptor": true, "UnaryInterceptor": true, "WithChainUnaryInterceptor": true},
	}
	out, changed, err := r.RewriteSource("main.go", []byte(before))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"ChainUnaryInterceptor → UnaryInterceptor"}; !slices.Equal(changed, want) {
		t.Errorf("changed %q, want %q", changed, want)
	}
	for _, want := range []string{
		`"wirelab.dev/rpc/fastgrpc"`, `"google.golang.org/grpc"`,
		"reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error",
		"func dial(opts []fastgrpc.ClientOption) (*fastgrpc.Client, error)",
		"fastgrpc.WithUnaryInterceptor(intercept), fastgrpc.WithChainUnaryInterceptor()",
		"fastgrpc.NewServer(fastgrpc.Creds(nil), fastgrpc.UnaryInterceptor())",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	if again, changed, err := r.RewriteSource("main.go", out); err != nil || string(again) != string(out) || len(changed) > 0 {
		t.Errorf("a second time it changes %q, error %v:\n%s", changed, err, again)
	}
}

// TestSourceOnlyConstructing checks that the import of package grpc goes if it is unused.
func TestSourceOnlyConstructing(t *testing.T) {
	r := &Rewriter{options: map[string]bool{}, fast: map[string]bool{}}
	out, _, err := r.RewriteSource("main.go", []byte("package main\n\nimport \"google.golang.org/grpc\"\n\nvar s = grpc.NewServer()\n"))
	want := "package main\n\nimport \"wirelab.dev/rpc/fastgrpc\"\n\nvar s = fastgrpc.NewServer()\n"
	if err != nil || string(out) != want {
		t.Errorf("error %v:\n%s", err, out)
	}
}

// TestNewRewriter reads the libraries as they are.
func TestNewRewriter(t *testing.T) {
	r, err := NewRewriter()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"WithTransportCredentials", "WithDefaultServiceConfig", "Creds", "MaxRecvMsgSize"} {
		if !r.options[name] {
			t.Errorf("%s is no option of grpc-go", name)
		}
	}
	if r.options["WaitForReady"] || !r.fast["NewServer"] || r.fast["TestMain"] {
		t.Errorf("options %v, fastgrpc's %v", r.options, r.fast)
	}
}
