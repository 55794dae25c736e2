package swap

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// droppedOptions holds names of grpc-go's options that fastgrpc lacks. WithBlock also changes the
// function that replaces grpc.Dial.
var droppedOptions = map[string]bool{"WithBlock": true, "FailOnNonTempDialError": true}

// dropOptions returns the expressions that are no calls of functions in droppedOptions. It also
// returns the names of the dropped functions.
func (p *fileRewrite) dropOptions(list []ast.Expr) (kept []ast.Expr, dropped []string) {
	kept = slices.DeleteFunc(list, func(e ast.Expr) bool {
		call, ok := e.(*ast.CallExpr)
		if !ok || !droppedOptions[p.grpcName(call.Fun)] {
			return false
		}
		dropped = append(dropped, p.grpcName(call.Fun))
		return true
	})
	for _, name := range dropped {
		p.changed = append(p.changed, name+" → nothing")
	}
	return kept, dropped
}

// rewriteCall rewrites calls of grpc.Dial and grpc.DialContext as calls of a function that is added
// to the file. It does the same with grpc.NewClient if the program needs a *grpc.ClientConn. The
// targets of both first functions must have no scheme.
func (p *fileRewrite) rewriteCall(call *ast.CallExpr) {
	var dropped []string
	call.Args, dropped = p.dropOptions(call.Args)
	d := dialer{name: p.grpcName(call.Fun), file: p.file, grpc: p.grpc, clientConn: p.ClientConns, blocking: slices.Contains(dropped, "WithBlock")}
	if d.name == "Dial" || d.name == "DialContext" || d.name == "NewClient" && p.ClientConns {
		p.swapped = true
		p.others = p.others || p.ClientConns
		call.Fun = &ast.Ident{Name: d.functionName(), NamePos: call.Fun.Pos()}
		p.dialers[d] = true
		p.changed = append(p.changed, d.name+" → a function that calls NewClient")
	}
}

// A dialer describes a function that replaces one of grpc-go's constructors of clients.
type dialer struct {
	name, file string // the constructor's name; the name of the file
	grpc       string // the name under which the file imports package grpc
	clientConn bool   // it returns a *grpc.ClientConn
	blocking   bool   // it waits until the client is ready
}

func (d dialer) functionName() string {
	name := "fastgrpc" + d.name
	if d.blocking {
		name += "Blocking"
	}
	return name + "_" + strings.NewReplacer(".go", "", ".", "_", "-", "_").Replace(d.file)
}

func (d dialer) source() string {
	result, value, parameter, target, connect := "*fastgrpc.Client", "c", "", "target", ""
	if d.clientConn {
		result, value = "*"+d.grpc+".ClientConn", "c.ClientConn()"
	}
	if d.name != "NewClient" {
		target, connect = `"passthrough:///"+target`, "c.Connect()"
	}
	ctx := "context.Background()"
	if d.name == "DialContext" {
		parameter, ctx = "ctx context.Context, ", "ctx"
	}
	if d.blocking {
		connect = "if err := c.WaitReady(" + ctx + "); err != nil {\n\t\t_ = c.Close()\n\t\treturn nil, err\n\t}"
	}
	return fmt.Sprintf(`
func %s(%starget string, opts ...fastgrpc.ClientOption) (%s, error) {
	c, err := fastgrpc.NewClient(%s, opts...)
	if err != nil {
		return nil, err
	}
	%s
	return %s, nil
}
`, d.functionName(), parameter, result, target, connect, value)
}

// dialerSource returns the source of the functions that must be added to the file.
func (p *fileRewrite) dialerSource() string {
	var sources []string
	for d := range p.dialers {
		sources = append(sources, d.source())
	}
	slices.Sort(sources)
	return strings.Join(sources, "")
}
