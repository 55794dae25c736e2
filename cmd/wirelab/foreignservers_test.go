package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"wirelab.dev/internal/machine/host"
)

// A foreignServer is a program of another project that keeps its own log of requests.
type foreignServer struct {
	// command returns the program's command line, or why the machine cannot run it. Its files are in
	// testdata/foreign, and in at.dir after DIR, PORT and TLS in them have been replaced.
	command func(at place) (line []string, missing string)
	// quit ends the program after it has answered what it has received.
	quit syscall.Signal
}

// A place is where a server works: a folder, and two ports.
type place struct {
	dir, port, tls string
	shared         *classes
}

// classes are the compiled Java server, for all tests.
type classes struct {
	dir     string
	once    sync.Once
	missing string
}

func (c *classes) compile() (missing string) {
	c.once.Do(func() {
		line, missing := installed("javac", "-d", c.dir, "testdata/foreign/Server.java")
		if c.missing = missing; missing != "" {
			return
		}
		if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
			c.missing = "javac: " + string(out)
		}
	})
	return c.missing
}

var foreignServers = map[string]foreignServer{
	"nginx": {quit: syscall.SIGQUIT, command: func(at place) ([]string, string) {
		return installed("nginx", "-p", at.dir, "-c", at.dir+"/nginx.conf")
	}},
	"caddy": {quit: syscall.SIGTERM, command: func(at place) ([]string, string) {
		return installed("caddy", "run", "--adapter", "caddyfile", "--config", at.dir+"/Caddyfile")
	}},
	"node": {quit: syscall.SIGKILL, command: func(at place) ([]string, string) {
		return installed("node", at.dir+"/server.js", at.dir, at.port, at.tls)
	}},
	"jdk": {quit: syscall.SIGKILL, command: func(at place) ([]string, string) {
		if missing := at.shared.compile(); missing != "" {
			return nil, missing
		}
		return installed("java", "-XX:TieredStopAtLevel=1", "-Dsun.net.httpserver.nodelay=true", "-cp", at.shared.dir, "Server", at.dir, at.port)
	}},
	"grpcio": {quit: syscall.SIGKILL, command: func(at place) ([]string, string) {
		return pythonServer(at)
	}},
	"grpcio-aging": {quit: syscall.SIGKILL, command: func(at place) ([]string, string) {
		line, missing := pythonServer(at)
		return append(line, "100"), missing
	}},
}

func installed(program string, arguments ...string) (line []string, missing string) {
	path, err := exec.LookPath(program)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + program) // where Debian has nginx, and users have no path
	}
	if err != nil {
		return nil, err.Error() + ": run make setup"
	}
	return append([]string{path}, arguments...), ""
}

// pythonServer looks for grpcio in the Python of the path, and in the system's, where packages of
// the distribution are.
func pythonServer(at place) (line []string, missing string) {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import grpc").Run() == nil {
			return []string{python, at.dir + "/server.py", at.dir, at.port}, ""
		}
	}
	return nil, "no python3 has the module grpc: run make setup, or pip install grpcio"
}

// A logLine is what a server's log says of a request.
type logLine struct {
	Request struct{ Method, Proto string }
	Status  int   // 200; or 444, 0 or 14 if the server ended the request without a usual answer
	Size    int64 // bytes of the answer's body
	// The bytes of whole answers and requests with nginx; elsewhere Received has those of the body.
	Sent, Received int64
}

// A runningServer is a foreign server on ports of its own.
type runningServer struct {
	foreignServer
	place
	line  []string
	cmd   *exec.Cmd
	ended chan struct{}
	said  bytes.Buffer
}

// startForeign starts a server, which ends with the test. It skips the test if the machine lacks
// the program.
func startForeign(t *testing.T, name string, shared *classes) *runningServer {
	t.Helper()
	s := &runningServer{foreignServer: foreignServers[name]}
	const tries = 3 // another program may take a free port before the server listens on it
	for try := 1; ; try++ {
		s.place = place{t.TempDir(), freePort(t), freePort(t), shared}
		s.fillDirectory(t)
		var missing string
		if s.line, missing = s.command(s.place); missing != "" {
			t.Skip(missing)
		}
		if s.run(t) {
			break
		}
		if try == tries {
			t.Fatalf("%s does not listen: %s", name, s.said.String())
		}
	}
	t.Cleanup(func() { s.end(syscall.SIGKILL) })
	return s
}

// run starts the program, and reports whether it listens.
func (s *runningServer) run(t *testing.T) bool {
	t.Helper()
	s.said.Reset()
	s.cmd, s.ended = exec.Command(s.line[0], s.line[1:]...), make(chan struct{})
	s.cmd.Env = append(os.Environ(), "HOME="+s.dir)
	s.cmd.Stdout, s.cmd.Stderr = &s.said, &s.said
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // nginx has a worker
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func(cmd *exec.Cmd, ended chan struct{}) { // ends with the program
		defer close(ended)
		_ = cmd.Wait()
	}(s.cmd, s.ended)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		// Another program may have taken the port: only a listener of this server's process group counts.
		if slices.ContainsFunc(host.FindListeners("tcp", "127.0.0.1:"+s.port), func(pid int) bool {
			group, err := syscall.Getpgid(pid)
			return err == nil && group == s.cmd.Process.Pid
		}) {
			return true
		}
		select {
		case <-s.ended:
			return false
		case <-ctx.Done():
			t.Fatalf("%v does not listen: %s", s.line, s.said.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// end sends a signal to all processes of the server, and waits until it has ended.
func (s *runningServer) end(signal syscall.Signal) {
	if signal == syscall.SIGKILL {
		_ = syscall.Kill(-s.cmd.Process.Pid, signal) // it may have ended
	} else {
		_ = s.cmd.Process.Signal(signal)
	}
	<-s.ended
}

// log returns what the server has logged so far.
func (s *runningServer) log(t *testing.T) []logLine {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
	var lines []logLine
	for entry := range bytes.Lines(text) {
		var line logLine
		if !bytes.HasSuffix(entry, []byte("\n")) {
			break // the server is writing it
		}
		if err := json.Unmarshal(entry, &line); err != nil {
			t.Errorf("%v in %s", err, entry)
		}
		lines = append(lines, line)
	}
	return lines
}

// fillDirectory copies the servers' files, with the place in them, and a certificate.
func (s *runningServer) fillDirectory(t *testing.T) {
	t.Helper()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob("testdata/foreign/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of foreign servers: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write(filepath.Base(file), strings.NewReplacer("DIR", s.dir, "PORT", s.port, "TLS", s.tls).Replace(string(text)))
	}
	cert, key := testCertificate()
	write("cert.pem", cert)
	write("key.pem", key)
}

// testCertificate returns the certificate and key of httptest, which no client trusts.
var testCertificate = sync.OnceValues(func() (cert, key string) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	encoded, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
})

func freePort(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	_, port, err := net.SplitHostPort(lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
