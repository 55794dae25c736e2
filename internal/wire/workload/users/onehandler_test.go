package users_test

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/users"
	"wirelab.dev/internal/wire/workload/workloadtest"
)

// counter stands between a workload and a server: it notes what is registered
// and counts the calls that reach it.
type counter struct {
	to     grpc.ServiceRegistrar
	kind   string // of the implementation
	calls  *atomic.Int64
	passed int
}

func (c *counter) RegisterService(desc *grpc.ServiceDesc, service any) {
	c.kind = fmt.Sprintf("%T", service)
	c.passed++
	counted := *desc
	counted.Methods = slices.Clone(desc.Methods)
	for i, method := range desc.Methods {
		counted.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			c.calls.Add(1)
			return method.Handler(srv, ctx, decode, interceptor)
		}
	}
	c.to.RegisterService(&counted, service)
}

// TestOneHandlerBehindEveryStack counts: each stack is given the same one
// implementation, and each call on each reaches it, once.
func TestOneHandlerBehindEveryStack(t *testing.T) {
	const calls = 40
	p := workload.Parameters{Settings: workloadtest.Settings(t, "work=0s,mix=get-user*2+get-users*1+create-small*1")}
	kinds := map[string]bool{}
	for _, variant := range over {
		seen := &counter{calls: &atomic.Int64{}}
		r := start(t, variant, func(to grpc.ServiceRegistrar) grpc.ServiceRegistrar {
			seen.to = to
			return seen
		})
		c := users.Workload{}.NewCaller(r.conn, workload.Job{Parameters: p, Seed: 7})
		for range calls {
			if err := workloadtest.CallAndCheck(t, c); err != nil {
				t.Errorf("%s: %v", variant, err)
			}
		}
		if seen.calls.Load() != calls || seen.passed != 1 {
			t.Errorf("%s: %d calls reached the handler, which was registered %d times; want %d and once", variant, seen.calls.Load(), seen.passed, calls)
		}
		kinds[seen.kind] = true
	}
	if len(kinds) != 1 {
		t.Errorf("the stacks carry %d handlers: %v", len(kinds), kinds)
	}
}

// TestNoStackKnowsTheService reads the imports of everything that is not a test:
// where the generated code is not imported, no logic of the service can be.
func TestNoStackKnowsTheService(t *testing.T) {
	root := filepath.Join("..", "..", "..", "..")
	var importers []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "testdata" || name == "node_modules" || name == ".git") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imported := range file.Imports {
			if strings.HasSuffix(imported.Path.Value, `/workload/users/userspb"`) {
				relative, err := filepath.Rel(root, filepath.Dir(path))
				if err != nil {
					return err
				}
				importers = append(importers, filepath.ToSlash(relative))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(importers)
	if got := slices.Compact(importers); !slices.Equal(got, []string{"internal/wire/workload/users"}) {
		t.Errorf("the service is known to %v, and to be known to its own package only", got)
	}
}
