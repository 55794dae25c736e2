// Package conformance runs the Connect project's conformance suite over fastgrpc and over
// grpc-go, and holds the one against the other.
//
// The suite has a reference client and a reference server with faults to order, and a
// client and a server that use grpc-go. Those two are built as they are and with fastgrpc
// in grpc-go's place (package swap). They lack TLS, JSON and all compressors but gzip, which
// testdata adds for both; the cases of JSON and of those compressors are make judges'.
package conformance

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"wirelab.dev/rpc/fastgrpc/interop/swap"
)

const (
	module   = "connectrpc.com/conformance"
	timeLong = 20 * time.Minute // of one run of the suite; it takes some seconds, with all features a minute
)

// TestConnect runs all cases of gRPC over HTTP/2, without TLS, with it, and with client
// certificates: the client under test, the server, and both.
func TestConnect(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the suite takes half a minute")
	}
	dir := t.TempDir()
	build(t, dir)
	for _, end := range []string{"client", "server"} {
		t.Run(end, func(t *testing.T) {
			ours, theirs := run(t, dir, end, "ours-"+end), run(t, dir, end, "theirs-"+end)
			t.Logf("passed of %d: fastgrpc %d, grpc-go %d", ours.total, ours.total-len(ours.failed), theirs.total-len(theirs.failed))
			if ours.total != theirs.total {
				t.Errorf("%d cases with fastgrpc, %d with grpc-go", ours.total, theirs.total)
			}
			again(t, &ours, func(name string) bool { _, both := theirs.failed[name]; return both }, dir, end, "ours-"+end)
			judge(t, end, ours, theirs)
		})
	}
	t.Run("both", func(t *testing.T) {
		r := run(t, dir, "both", "ours-client", "----", filepath.Join(dir, "ours-server"))
		again(t, &r, func(string) bool { return false }, dir, "both", "ours-client", "----", filepath.Join(dir, "ours-server"))
		for name, text := range r.failed {
			t.Errorf("%s\n%s", name, text)
		}
		t.Logf("passed of %d: %d", r.total, r.total-len(r.failed))
	})
}

// attempts limits how often a case may be run. Some cancel a call after 200 ms, or look at a
// deadline, and fail with either library where the machine is busy.
const attempts = 4

// again runs cases that failed once more, but those that are expected to, and takes those
// out that pass.
func again(t *testing.T, r *result, expected func(name string) bool, dir, mode, program string, more ...string) {
	t.Helper()
	for range attempts - 1 {
		only := map[string]string{}
		var flags []string
		for name, text := range r.failed {
			if !expected(name) {
				only[name] = text
				flags = append(flags, "--run", name)
			}
		}
		if len(only) == 0 || len(only) > 20 {
			return
		}
		repeated := runWith(t, flags, dir, mode, program, more...)
		for name, text := range only {
			if _, failed := repeated.failed[name]; !failed {
				t.Logf("failed once and passed then: %s\n%s", name, text)
				delete(r.failed, name)
			}
		}
	}
}

// judge checks that a case which passes with grpc-go does not fail, and that exactly the
// listed cases fail.
func judge(t *testing.T, end string, ours, theirs result) {
	known, err := os.ReadFile(filepath.Join("testdata", "known_failing.txt"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(known)) {
		pattern, ok := strings.CutPrefix(strings.TrimSpace(line), end+" ")
		if !ok {
			continue
		}
		before := len(listed)
		for name := range ours.failed {
			if ok, err := path.Match(pattern, name); err != nil {
				t.Fatalf("%s: %v", pattern, err)
			} else if ok {
				listed[name] = true
			}
		}
		if len(listed) == before {
			t.Errorf("passes now, so take it out of testdata/known_failing.txt: %s", pattern)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ours.failed)) {
		switch _, both := theirs.failed[name]; {
		case !both:
			t.Errorf("fails, and passes with grpc-go: %s\n%s", name, ours.failed[name])
		case !listed[name]:
			t.Errorf("fails with grpc-go too, and is not in testdata/known_failing.txt: %s\n%s", name, ours.failed[name])
		}
	}
}

// A result holds the findings of a run of the suite.
type result struct {
	total  int
	failed map[string]string // what the suite says, by the case's name
}

var (
	failedCase = regexp.MustCompile(`(?m)^FAILED: (.*):\n((?:\t.*\n)*)`)
	totals     = regexp.MustCompile(`(?m)^Total cases: (\d+)\n(\d+) passed, (\d+) failed`)
)

// run runs the suite against a program.
func run(t *testing.T, dir, mode, name string, more ...string) result {
	t.Helper()
	return runWith(t, nil, dir, mode, name, more...)
}

func runWith(t *testing.T, flags []string, dir, mode, name string, more ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeLong)
	defer cancel()
	features := "features.yaml"
	if os.Getenv("JUDGES") != "" {
		features = "all_features.yaml" // four times as many cases
	}
	args := slices.Concat([]string{"--conf", filepath.Join("testdata", features), "--mode", mode}, flags, []string{"--", filepath.Join(dir, name)}, more)
	suite := exec.CommandContext(ctx, filepath.Join(dir, "connectconformance"), args...)
	var out bytes.Buffer
	suite.Stdout, suite.Stderr = &out, &out
	err := suite.Run()
	var exit *exec.ExitError
	sum := totals.FindStringSubmatch(out.String())
	if err != nil && !errors.As(err, &exit) || sum == nil {
		t.Fatalf("%s: %v\n%s", strings.Join(suite.Args, " "), err, out.String())
	}
	r := result{failed: map[string]string{}}
	for _, found := range failedCase.FindAllStringSubmatch(out.String(), -1) {
		r.failed[found[1]] = found[2]
	}
	r.total, _ = strconv.Atoi(sum[1])
	if failed, _ := strconv.Atoi(sum[3]); failed != len(r.failed) || r.total == 0 {
		t.Fatalf("the suite counts %d failed of %d, and names %d:\n%s", failed, r.total, len(r.failed), out.String())
	}
	return r
}

// build builds the suite, and its client and server with either library.
func build(t *testing.T, dir string) {
	t.Helper()
	rewriter, err := swap.NewRewriter()
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range []string{"theirs", "ours"} {
		source := filepath.Join(dir, library)
		if err := swap.CopyModule(module, source); err != nil {
			t.Skipf("the suite cannot be had here: %v", err)
		}
		extend(t, filepath.Join(source, "internal", "app"))
		programs := []swap.Program{
			{Package: module + "/cmd/grpcclient", File: library + "-client"},
			{Package: module + "/cmd/grpcserver", File: library + "-server"},
		}
		if library == "ours" {
			for _, end := range []string{"grpcclient", "grpcserver"} {
				if _, err := rewriter.RewriteFolder(filepath.Join(source, "internal", "app", end)); err != nil {
					t.Fatal(err)
				}
			}
			programs = append(programs, swap.Program{Package: module + "/cmd/connectconformance", File: "connectconformance"})
		}
		failed, err := swap.Build(dir, map[string]string{module: source}, programs...)
		if err != nil {
			t.Skipf("the suite cannot be built here: %v", err)
		}
		for program, said := range failed {
			t.Fatalf("%s: %s", program.File, said)
		}
	}
	runtime.GC() // what was parsed is not needed any more
}

// extend adds the code in testdata to the suite's client and server.
func extend(t *testing.T, app string) {
	t.Helper()
	for _, c := range []struct {
		file, added string
		edits       []string
	}{
		{"grpcclient/client.go", "client.go.txt", []string{
			"transportCredentials := insecure.NewCredentials()\n",
			"transportCredentials := insecure.NewCredentials()\n\tif err := secure(req, &transportCredentials); err != nil {\n\t\treturn nil, err\n\t}\n",
			"\"connectrpc.com/conformance/internal/tracer\"\n", "_ \"connectrpc.com/conformance/internal/compression\"\n\t\"connectrpc.com/conformance/internal/tracer\"\n",
			"clientConn, err := grpc.NewClient(\n", "dialOpts = append(dialOpts, grpc.WithDefaultCallOptions(callOptions(req)...))\n\tclientConn, err := grpc.NewClient(\n",
		}},
		{"../compression/compression.go", "encodings.go.txt", nil},
		{"grpcserver/server.go", "server.go.txt", []string{
			"\"connectrpc.com/conformance/internal/tracer\"\n", "_ \"connectrpc.com/conformance/internal/compression\"\n\t\"connectrpc.com/conformance/internal/tracer\"\n",
			"\tif req.UseTls {\n\t\treturn fmt.Errorf(\"%s: TLS is not supported\", args[0])\n\t}\n",
			"\tcreds, certificate, err := secure(req)\n\tif err != nil {\n\t\treturn err\n\t}\n",
			"createServer(req.MessageReceiveLimit)", "createServer(req.MessageReceiveLimit, grpc.Creds(creds))",
			"createServer(recvLimit uint32)", "createServer(recvLimit uint32, creds grpc.ServerOption)",
			"grpc.MaxRecvMsgSize(int(recvLimit)),\n", "grpc.MaxRecvMsgSize(int(recvLimit)), creds,\n",
			"Host: fmt.Sprint(tcpAddr.IP),", "PemCert: certificate,\n\t\tHost: fmt.Sprint(tcpAddr.IP),",
			"grpcweb.WrapServer(server,", "grpcweb.WrapServer(nil,", // gRPC-Web is not asked for
		}},
	} {
		name := filepath.Join(app, c.file)
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for pair := range slices.Chunk(c.edits, 2) {
			if n := bytes.Count(text, []byte(pair[0])); n != 1 {
				t.Fatalf("%s has %q %d times: adapt the edit to the suite's version", c.file, pair[0], n)
			}
			text = bytes.Replace(text, []byte(pair[0]), []byte(pair[1]), 1)
		}
		added, err := os.ReadFile(filepath.Join("testdata", c.added))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(name, text, 0o600), os.WriteFile(filepath.Join(filepath.Dir(name), "added.go"), added, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}
