package fastgrpc

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"wirelab.dev/rpc/h2"
)

var update = flag.Bool("update", false, "write doc_options.go")

// differences lists grpc-go's options that have no option of the same name here. Those
// that begin with a name of this package or another say what to use; the others are left
// out.
var differences = map[string]string{
	"WithBackoffConfig":   "WithConnectParams",
	"WithBlock":           "Client.WaitReady",
	"WithBackoffMaxDelay": "WithConnectParams",

	"WithChainStreamInterceptor": "WithStreamInterceptor takes several",
	"WithChainUnaryInterceptor":  "WithUnaryInterceptor takes several",
	"WithChannelzParentID":       "left out: rpc/fastgrpc/channelz shows no nesting",
	"WithCodec":                  "WithDefaultCallOptions with grpc.ForceCodecV2",
	"WithCompressor":             "WithDefaultCallOptions with grpc.UseCompressor",
	"WithDecompressor":           "encoding.RegisterCompressor",
	"WithDialer":                 "WithContextDialer",
	"FailOnNonTempDialError":     "left out: calls without WaitForReady return the error",
	"WithInitialConnWindowSize":  "WithWindows",
	"WithInitialWindowSize":      "WithWindows",
	"WithInsecure":               "WithTransportCredentials with insecure.NewCredentials",
	"WithMaxMsgSize":             "WithDefaultCallOptions with grpc.MaxCallRecvMsgSize",
	"WithReadBufferSize":         "left out: buffers adapt to the traffic",
	"WithReturnConnectionError":  "Client.WaitReady returns it",
	"WithSharedWriteBuffer":      "left out: buffers are shared, and given back when idle",
	"WithStaticConnWindowSize":   "WithWindows, whose sizes stay fixed",
	"WithStaticStreamWindowSize": "WithWindows, whose sizes stay fixed",
	"WithTimeout":                "Client.WaitReady with a context",
	"WithWriteBufferSize":        "left out: buffers adapt to the traffic",

	"ChainStreamInterceptor": "StreamInterceptor takes several",
	"ChainUnaryInterceptor":  "UnaryInterceptor takes several",
	"CustomCodec":            "ForceServerCodecV2",
	"HeaderTableSize":        "left out: the table is 4 KiB, HTTP/2's default",
	"InitialConnWindowSize":  "Windows",
	"InitialWindowSize":      "Windows",
	"MaxMsgSize":             "MaxRecvMsgSize",
	"NumStreamWorkers":       "left out: handlers always run on reused goroutines",
	"RPCCompressor":          "SetSendCompressor in handlers",
	"RPCDecompressor":        "encoding.RegisterCompressor",
	"ReadBufferSize":         "left out: buffers adapt to the traffic",
	"SharedWriteBuffer":      "left out: buffers are shared, and given back when idle",
	"StaticConnWindowSize":   "Windows, whose sizes stay fixed",
	"StaticStreamWindowSize": "Windows, whose sizes stay fixed",
	"WriteBufferSize":        "left out: buffers adapt to the traffic",

	"experimental.BufferPool":         "left out: buffers are the library's own",
	"experimental.WithBufferPool":     "left out: buffers are the library's own",
	"opentelemetry.DialOption":        "WithStatsHandler with otelgrpc.NewClientHandler",
	"opentelemetry.ServerOption":      "StatsHandler with otelgrpc.NewServerHandler",
	"orca.CallMetricsServerOption":    "left out: there are no load reports per call",
	"xds.BootstrapContentsForTesting": "left out: there is no xDS",
	"xds.ClientPoolForTesting":        "left out: there is no xDS",
	"xds.ServingModeCallback":         "left out: there is no xDS",

	// Call options are grpc-go's own. Those that are left out fail the call.
	"CallCustomCodec":                "grpc.ForceCodecV2",
	"experimental.AcceptCompressors": "left out: all announced compressors are accepted",
}

// api holds the exported functions of a package by name, and its methods as "Type.Method".
type api map[string]function

// function says what a function that returns an option takes and returns.
type function struct {
	option string // DialOption, ServerOption, CallOption, ClientOption or, if none, ""
	takes  string
	makes  string // the struct that is the option, if the function makes one
}

// optionTypes lists the option types of grpc-go and of this package.
var optionTypes = map[string]bool{"DialOption": true, "ServerOption": true, "CallOption": true, "ClientOption": true}

// exports adds what a file exports.
func (a api) exports(file *ast.File, prefix string) {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !f.Name.IsExported() {
			continue
		}
		if f.Recv != nil {
			if star, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
				if of, ok := star.X.(*ast.Ident); ok {
					a[of.Name+"."+f.Name.Name] = function{}
				}
			}
			continue
		}
		a[prefix+f.Name.Name] = describe(f)
	}
}

func describe(f *ast.FuncDecl) (d function) {
	if f.Type.Results == nil {
		return d
	}
	option := types.ExprString(f.Type.Results.List[0].Type)
	if d.option = strings.TrimPrefix(option, "grpc."); !optionTypes[d.option] {
		return function{}
	}
	for _, p := range f.Type.Params.List {
		d.takes += strings.ReplaceAll(strings.TrimPrefix(types.ExprString(p.Type), "..."), "grpc.", "") + " "
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if made, ok := n.(*ast.CompositeLit); ok && made.Type != nil {
			d.makes = types.ExprString(made.Type)
		}
		return true
	})
	return d
}

// handledCallOptions returns the call options of grpc-go that callInfo.apply applies.
func handledCallOptions(t *testing.T) map[string]bool {
	t.Helper()
	handled := map[string]bool{}
	for _, file := range append(goFiles(t, "."), goFiles(t, "../call")...) {
		ast.Inspect(file, func(n ast.Node) bool {
			if c, ok := n.(*ast.CaseClause); ok {
				for _, of := range c.List {
					handled[strings.TrimPrefix(types.ExprString(of), "grpc.")] = true
				}
			}
			return true
		})
	}
	return handled
}

// goFiles parses the Go files of a folder that are not tests.
func goFiles(t *testing.T, folder string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// grpcFolder returns the folder of grpc-go's source.
func grpcFolder(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f={{.Dir}}", "google.golang.org/grpc").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// grpcOptions returns the functions of all packages of grpc-go that return options.
func grpcOptions(t *testing.T) api {
	t.Helper()
	root := grpcFolder(t)
	all := api{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
			return err
		case d.Name() == "internal", d.Name() == "testdata":
			return fs.SkipDir
		}
		for _, file := range goFiles(t, path) {
			prefix := file.Name.Name + "."
			if path == root {
				prefix = ""
			}
			all.exports(file, prefix)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(all, func(_ string, f function) bool { return f.option == "" })
	return all
}

// TestOptions checks that each option of grpc-go is supported here or listed, with what
// to use instead, and that the package page has that list.
func TestOptions(t *testing.T) {
	theirs, ours := grpcOptions(t), api{}
	for _, file := range goFiles(t, ".") {
		ours.exports(file, "")
	}
	if len(theirs) < 100 || theirs["WithBlock"].option != "DialOption" {
		t.Fatalf("grpc-go's options are %v, which cannot be all", theirs)
	}
	handled := handledCallOptions(t)
	for name, f := range theirs {
		_, listed := differences[name]
		own, same := ours[name]
		if f.option == "CallOption" {
			same = handled[f.makes]
		} else if same && own.takes != f.takes {
			t.Errorf("%s takes %s, but grpc-go's %s", name, own.takes, f.takes)
		}
		switch {
		case same && listed:
			t.Errorf("%s is supported: remove it from differences", name)
		case !same && !listed:
			t.Errorf("%s is neither supported nor in differences: say there what to use instead", name)
		}
	}
	for name, instead := range differences {
		if theirs[name].option == "" {
			t.Errorf("%s is in differences, but grpc-go has no such option", name)
		}
		first := strings.TrimSuffix(strings.Fields(instead)[0], ",")
		if _, known := ours[first]; !known && ast.IsExported(first) {
			t.Errorf("%s: use %q, but this package has no such function", name, first)
		}
	}
	checkGenerated(t, "doc_options.go", optionsPage(theirs))
}

// TestRefusedCallOptions checks that a call option of grpc-go that is not supported fails
// the call, and that a program's own option for its interceptors does not.
func TestRefusedCallOptions(t *testing.T) {
	_, target := startFast(t)
	c := dialFast(t, target)
	type own struct{ grpc.EmptyCallOption }
	if err := ping(testContext(t), c, own{}, grpc.EmptyCallOption{}); err != nil {
		t.Error(err)
	}
	for name, option := range map[string]grpc.CallOption{
		"CustomCodecCallOption":       grpc.CallCustomCodec(nil), //nolint:staticcheck // deprecated, as it may be used
		"acceptCompressorsCallOption": experimental.AcceptCompressors("gzip"),
	} {
		if err := ping(testContext(t), c, option); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want Internal with the option's name", name, err)
		}
	}
}

// checkGenerated compares a file with its content, or writes it.
func checkGenerated(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("%s is not what this test writes (%v): run go test ./rpc/fastgrpc -run %s -update", name, err, t.Name())
	}
}

func optionsPage(theirs api) string {
	var b strings.Builder
	b.WriteString("// Code generated by TestOptions; DO NOT EDIT.\n\n" +
		"// # Options\n//\n" +
		"// These options of grpc-go have no option of the same name here; all others have, and\n" +
		"// take the same arguments or more. What is left out does not compile, and a call option\n" +
		"// that is left out fails its call.\n//\n")
	width := 0
	for name := range differences {
		width = max(width, len(name)+2)
	}
	line := func(theirs, here string) { fmt.Fprintf(&b, "//\t%-*s%s\n", width, theirs, here) }
	line("grpc-go has", "here")
	for _, option := range []string{"DialOption", "ServerOption", "CallOption"} {
		for _, name := range slices.Sorted(maps.Keys(differences)) {
			if theirs[name].option == option {
				line(name, differences[name])
			}
		}
	}
	b.WriteString("package fastgrpc\n")
	return b.String()
}

// TestSecurityPage checks that the tests that SECURITY.md names exist, and its figures.
func TestSecurityPage(t *testing.T) {
	page, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllSubmatch(page, -1)
	o := NewServer().opts
	for _, figure := range []string{
		fmt.Sprintf("`MaxRecvMsgSize`, %d MiB", o.maxReceive>>20),
		fmt.Sprintf("cost %d MiB per connection", memoryLimit>>20),
		fmt.Sprintf("when it costs %d MiB", memoryLimit>>22),
		fmt.Sprintf("at first %d handlers", h2.FirstCalls),
		fmt.Sprintf("more after %d ms", firstUnparkDelay.Milliseconds()),
		fmt.Sprintf("every %d ms", nextUnparkDelay.Milliseconds()),
		fmt.Sprintf("`MaxHeaderListSize`, %d MiB", o.h2.MaxHeaderList>>20),
		fmt.Sprintf("`ConnectionTimeout`, %.0f s", o.connectionTimeout.Seconds()),
		fmt.Sprintf("%d a second", o.h2.ControlRate),
		fmt.Sprintf("more than %d deep", protowire.DefaultRecursionLimit),
	} {
		if !bytes.Contains(bytes.ReplaceAll(page, []byte(",0"), []byte("0")), []byte(figure)) {
			t.Errorf("SECURITY.md does not say %q", figure)
		}
	}
	if len(named) < 20 {
		t.Errorf("SECURITY.md names %d tests, which cannot be all", len(named))
	}
	var sources []byte
	for _, pattern := range []string{"*_test.go", "internal/*/*_test.go", "../batchio/*_test.go", "../call/*/*_test.go", "../h2/*_test.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, source...)
		}
	}
	for _, name := range named {
		if !bytes.Contains(sources, slices.Concat([]byte("\nfunc "), name[1], []byte("("))) {
			t.Errorf("SECURITY.md names %s, which does not exist", name[1])
		}
	}
}
