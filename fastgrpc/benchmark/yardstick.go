package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The yardsticks are other people's programs, where they are installed: h2load
// (nghttp2) and ghz as clients of the same server, Caddy as a server of the same
// bytes. Their CPU time is that of their whole life, which is about as long as the
// window.
const (
	clientH2load = "h2load"
	clientGhz    = "ghz"
	serverCaddy  = "caddy"
)

// yardsticks lists their cells beside those of the libraries that they measure.
func yardsticks() []spec {
	unary := spec{Cell: "client-64B-50", Work: "unary", Size: 64, Callers: 50, Conns: 1, Server: "grpc"}
	var cells []spec
	for _, client := range []string{"grpc", "fast", clientH2load, clientGhz} {
		unary.Client = client
		cells = append(cells, unary)
	}
	get := spec{Cell: "get-16KiB", Work: "get", Size: 16 << 10, Callers: 1, Conns: 1, Client: clientH2load, Server: serverCaddy}
	return append(cells, get)
}

// missing names the program that a cell needs and the machine has not.
func (s spec) missing() string {
	for _, program := range []string{s.Client, s.Server} {
		switch program {
		case clientH2load, clientGhz, serverCaddy:
			if _, err := exec.LookPath(program); err != nil {
				return program
			}
		}
	}
	return ""
}

func (s spec) foreignClient() bool { return s.Client == clientH2load || s.Client == clientGhz }

// units is how much a foreign client is asked for, so that it takes about a window.
func (s spec) units() int {
	aSecond := 100_000.0
	switch {
	case s.Client == clientGhz:
		aSecond = 20_000
	case s.Server == serverCaddy:
		aSecond = 60 // files of 16 MiB
	}
	return max(s.Callers, int(aSecond*s.Window.Seconds()))
}

// measureForeign runs a client that is not this program against a running server.
func (r *run) measureForeign(s spec) (result, error) {
	dir, err := os.MkdirTemp("", "fastgrpc-benchmark-")
	if err != nil {
		return result{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	args, err := s.foreignCommand(dir)
	if err != nil {
		return result{}, err
	}
	cmd := exec.Command("taskset", append([]string{"-c", r.clientCPU}, args...)...)
	before, began := schedTime(s.PID), time.Now()
	out, err := cmd.CombinedOutput()
	elapsed, used := time.Since(began), schedTime(s.PID)-before
	if err != nil {
		return result{}, fmt.Errorf("%s: %w: %s", s.Client, err, out)
	}
	if err := s.checkForeign(string(out)); err != nil {
		return result{}, err
	}
	units := float64(s.units())
	if s.Work == "get" {
		units *= float64(chunksAPut*s.Size) / 1e9
	}
	u := cmd.ProcessState
	rate := units / elapsed.Seconds()
	return result{
		PerSecond: rate, ClientCPU: (u.UserTime() + u.SystemTime()).Seconds() / units, ServerCPU: used / units,
		Mean: time.Duration(float64(s.Callers) / rate * float64(time.Second)),
	}, nil
}

// foreignCommand writes the files that the client reads and returns its command.
func (s spec) foreignCommand(dir string) ([]string, error) {
	n, callers := strconv.Itoa(s.units()), strconv.Itoa(s.Callers)
	switch {
	case s.Server == serverCaddy:
		return []string{clientH2load, "-n", n, "-c", "1", "-m", callers, "-w", "30", "-W", "30", "http://" + s.Address + "/file"}, nil
	case s.Client == clientGhz:
		definition := filepath.Join(dir, "benchmark.proto")
		data := strconv.Quote(base64.StdEncoding.EncodeToString(make([]byte, s.Size))) // as protobuf's JSON has bytes
		return []string{
			clientGhz, "--insecure", "--proto", definition, "--call", serviceName + ".Echo", "-d", data,
			"-n", n, "-c", callers, "--connections", "1", "--cpus", "1", s.Address,
		}, os.WriteFile(definition, []byte(serviceProto), 0o600)
	}
	message, err := proto.Marshal(wrapperspb.Bytes(make([]byte, s.Size)))
	if err != nil {
		return nil, err
	}
	body := filepath.Join(dir, "body")
	prefixed := append([]byte{0, 0, 0, 0, byte(len(message))}, message...)
	return []string{
		clientH2load, "-n", n, "-c", "1", "-m", callers, "-d", body,
		"-H", "content-type: application/grpc", "-H", "te: trailers", "http://" + s.Address + methodEcho,
	}, os.WriteFile(body, prefixed, 0o600)
}

// serviceProto is the service of the benchmark for who cannot link it.
const serviceProto = `syntax = "proto3";
package wirelab.fastgrpc;
import "google/protobuf/wrappers.proto";
service Benchmark { rpc Echo(google.protobuf.BytesValue) returns (google.protobuf.BytesValue); }
`

var (
	h2loadDone = regexp.MustCompile(`(\d+) succeeded, `)
	ghzDone    = regexp.MustCompile(`\[OK\]\s+(\d+) responses`)
)

// checkForeign wants every request answered.
func (s spec) checkForeign(out string) error {
	done := h2loadDone
	if s.Client == clientGhz {
		done = ghzDone
	}
	found := done.FindStringSubmatch(out)
	if len(found) < 2 || found[1] != strconv.Itoa(s.units()) {
		return fmt.Errorf("%s did not have all %d requests answered:\n%s", s.Client, s.units(), out)
	}
	return nil
}

// startCaddy serves a file as long as a transfer, over cleartext HTTP/2.
func (r *run) startCaddy(s *spec) (*process, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.Address = lis.Addr().String() // free a moment ago
	_ = lis.Close()
	dir, err := os.MkdirTemp("", "fastgrpc-benchmark-")
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf("{\n\tadmin off\n\tauto_https off\n\tservers {\n\t\tprotocols h1 h2c\n\t}\n}\nhttp://%s {\n\troot * %s\n\tfile_server\n}\n", s.Address, dir)
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "Caddyfile"), []byte(config), 0o600),
		os.WriteFile(filepath.Join(dir, "file"), make([]byte, chunksAPut*s.Size), 0o600),
	); err != nil {
		return nil, err
	}
	cmd := exec.Command("taskset", "-c", r.serverCPU, serverCaddy, "run", "--config", filepath.Join(dir, "Caddyfile"), "--adapter", "caddyfile")
	cmd.Env = append(os.Environ(), "HOME="+dir)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", serverCaddy, err)
	}
	end := closer(func() error {
		err := cmd.Process.Signal(syscall.SIGTERM)
		return errors.Join(err, os.RemoveAll(dir))
	})
	p := &process{cmd: cmd, in: end, out: strings.NewReader("")}
	if err := awaitListener(s.Address); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

type closer func() error

func (c closer) Close() error { return c() }

var _ io.Closer = closer(nil)

// awaitListener waits until somebody listens.
func awaitListener(address string) error {
	var err error
	for range 100 {
		var c net.Conn
		if c, err = net.Dial("tcp", address); err == nil {
			return c.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// startServer starts the cell's server and fills in where it listens.
func (r *run) startServer(s *spec) (*process, error) {
	if s.Server == serverCaddy {
		return r.startCaddy(s)
	}
	server, err := r.start("server", r.serverCPU, *s)
	if err != nil {
		return nil, err
	}
	if err := json.NewDecoder(server.out).Decode(&s.Address); err != nil {
		server.stop()
		return nil, fmt.Errorf("server did not begin: %w", err)
	}
	return server, nil
}
