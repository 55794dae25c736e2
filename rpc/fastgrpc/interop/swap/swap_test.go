package swap

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const before = `package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
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

// rewrite rewrites a file with grpc-go's options WithBlock and Creds.
func rewrite(t *testing.T, r *Rewriter, text string) (out string, changed []string) {
	t.Helper()
	r.options = map[string]bool{"WithBlock": true, "Creds": true}
	r.fast = map[string]bool{"Creds": true}
	text = "package p\n\nimport (\n\t\"context\"\n\n\t\"google.golang.org/grpc\"\n)\n\n" + text
	b, changed, err := r.RewriteSource("some_file.go", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", b, 0); err != nil {
		t.Fatalf("%v in\n%s", err, b)
	}
	return string(b), changed
}

// TestInvokerTypes checks that literals of grpc.UnaryInvoker and grpc.Streamer keep their types.
func TestInvokerTypes(t *testing.T) {
	const literals = `var invoke = func(ctx context.Context, method string, req, reply any,
	cc *grpc.ClientConn, opts ...grpc.CallOption) error {
	return nil
}

func stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, nil
}
`
	out, _ := rewrite(t, &Rewriter{}, literals+"\nvar cc *grpc.ClientConn\n")
	if !strings.Contains(out, literals) || !strings.Contains(out, "var cc *fastgrpc.Client") {
		t.Errorf("it becomes\n%s", out)
	}
}

// TestDial checks that Dial and DialContext become functions that connect as both do.
func TestDial(t *testing.T) {
	out, changed := rewrite(t, &Rewriter{}, `func dial(ctx context.Context) {
	grpc.Dial("a", grpc.Creds(nil))
	grpc.DialContext(ctx, "b", grpc.WithBlock(), grpc.Creds(nil))
	options := []grpc.DialOption{grpc.WithBlock()}
}
`)
	for _, want := range []string{
		`fastgrpcDial_some_file("a", fastgrpc.Creds(nil))`,
		`fastgrpcDialContextBlocking_some_file(ctx, "b", fastgrpc.Creds(nil))`,
		"options := []fastgrpc.ClientOption{}",
		"func fastgrpcDial_some_file(target string, opts ...fastgrpc.ClientOption) (*fastgrpc.Client, error) {",
		"func fastgrpcDialContextBlocking_some_file(ctx context.Context, target string, opts ...fastgrpc.ClientOption) (*fastgrpc.Client, error) {",
		`fastgrpc.NewClient("passthrough:///"+target, opts...)`, "c.Connect()", "c.WaitReady(ctx)",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	if !slices.Contains(changed, "WithBlock → nothing") || !slices.Contains(changed, "Dial → a function that calls NewClient") {
		t.Errorf("changed %q", changed)
	}
}

// TestClientConns checks that a program may keep the type grpc.ClientConn.
func TestClientConns(t *testing.T) {
	out, _ := rewrite(t, &Rewriter{ClientConns: true}, `func dial(opts []grpc.DialOption) (*grpc.ClientConn, error) {
	cc, err := grpc.NewClient("x", opts...)
	cc.GetState()
	return cc, err
}
`)
	for _, want := range []string{
		"func dial(opts []fastgrpc.ClientOption) (*grpc.ClientConn, error)",
		`fastgrpcNewClient_some_file("x", opts...)`, "cc.GetState()",
		"func fastgrpcNewClient_some_file(target string, opts ...fastgrpc.ClientOption) (*grpc.ClientConn, error) {",
		"fastgrpc.NewClient(target, opts...)", "return c.ClientConn(), nil",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// TestRewriteModule checks that modules in subfolders stay as they are.
func TestRewriteModule(t *testing.T) {
	dir := t.TempDir()
	text := "package p\n\nimport \"google.golang.org/grpc\"\n\nvar s = grpc.NewServer()\n"
	for _, name := range []string{"go.mod", "a.go", "sub/b.go", "other/go.mod", "other/c.go"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (&Rewriter{}).RewriteModule(dir); err != nil {
		t.Fatal(err)
	}
	for name, rewritten := range map[string]bool{"a.go": true, "sub/b.go": true, "other/c.go": false} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || strings.Contains(string(b), "fastgrpc.NewServer()") != rewritten {
			t.Errorf("%s: rewritten is not %v, error %v:\n%s", name, rewritten, err, b)
		}
	}
}
