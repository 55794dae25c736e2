package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"

	"wirelab.dev/internal/wire/workload/echo/echopb"
)

// serving starts `wirelab serve` and returns the address that it prints.
func serving(t *testing.T, args ...string) string {
	t.Helper()
	server := exec.Command("wirelab", append([]string{"serve", "--json"}, args...)...)
	server.Stderr = testWriter{t}
	output, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := server.Wait(); err != nil {
			t.Errorf("Ctrl-C ends a server well, and this one ended with %v", err)
		}
	})
	var printed struct{ Address string }
	if err := json.NewDecoder(output).Decode(&printed); err != nil {
		t.Fatal(err)
	}
	return printed.Address
}

func payload(t *testing.T) (*echopb.Payload, []byte) {
	t.Helper()
	p := &echopb.Payload{Id: 7, Data: []byte("hi there")}
	body, err := proto.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return p, body
}

func wantEcho(t *testing.T, sent *echopb.Payload, body []byte) {
	t.Helper()
	var got echopb.Payload
	if err := proto.Unmarshal(body, &got); err != nil {
		t.Fatalf("%q is not a payload: %v", body, err)
	}
	if got.Id != sent.Id || !bytes.Equal(got.Data, sent.Data) || got.Timestamp == 0 {
		t.Errorf("sent %v, got %v", sent, &got)
	}
}

func TestCurlCanTalkToRest(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not on this machine")
	}
	address := serving(t, "--stack", "rest")
	sent, body := payload(t)
	file := filepath.Join(t.TempDir(), "payload.bin")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	answer, err := exec.Command(curl, "-sS", "--fail", "--data-binary", "@"+file,
		"-H", "Content-Type: application/x-protobuf", "http://"+address+"/echo").Output()
	if err != nil {
		t.Fatal(err)
	}
	wantEcho(t, sent, answer)
}

// The lines that docs/wire-rest-json.md has for people.
func TestCurlCanTalkToRESTInJSON(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not on this machine")
	}
	users := "http://" + serving(t, "--stack", "rest-json", "--workload", "users:work=0s") + "/users"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{users + "/user-0000042"}, `"email":"user-0000042@example.com"`},
		{[]string{users + "?limit=2&offset=10"}, `"id":"user-0000011"`},
		{[]string{users, "-H", "Content-Type: application/json", "-d", `{"id": "ada-1", "name": "Ada", "email": "ada@example.com"}`}, `"id":"ada-1"`},
		{[]string{users + "/nobody", "-w", " %{http_code}"}, `"code":"NOT_FOUND"`},
		{[]string{users + "/nobody", "-w", " %{http_code}"}, ` 404`},
	} {
		answer, err := exec.Command(curl, append([]string{"-sS"}, test.args...)...).CombinedOutput()
		if err != nil || !bytes.Contains(answer, []byte(test.want)) {
			t.Errorf("curl %q: %s %v, want %s", test.args, answer, err, test.want)
		}
	}
}

// A plain grpc-go client stands for grpcurl, which asks by reflection first.
func TestGRPCClientsCanTalkToGRPC(t *testing.T) {
	address := serving(t, "--stack", "grpc")
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sent, _ := payload(t)
	got, err := echopb.NewEchoServiceClient(conn).Echo(t.Context(), sent)
	if err != nil {
		t.Fatal(err)
	}
	body, err := proto.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	wantEcho(t, sent, body)

	reflection, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := reflection.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "wirelab.echo.v1.EchoService"},
	}); err != nil {
		t.Fatal(err)
	}
	found, err := reflection.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if found.GetFileDescriptorResponse() == nil {
		t.Errorf("reflection does not know the service: %v", found)
	}
}

func TestAPlainClientCanTalkToTCP(t *testing.T) {
	address := serving(t, "--stack", "tcp")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sent, body := payload(t)
	for range 3 {
		if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
			t.Fatal(err)
		}
		answer, err := readFrame(conn)
		if err != nil {
			t.Fatal(err)
		}
		wantEcho(t, sent, answer)
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(r, body)
	return body, err
}

// A server that knows only the framing can be measured.
func TestAServerOfSomeoneElse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answerAll(conn) // ends with the connection
		}
	}()
	directory := filepath.Join(t.TempDir(), "out")
	command := exec.Command("wirelab", "compare", "--stack", "tcp", "--size", "64", "-c", "2", "-n", "50", "--repeat", "1",
		"--warm-up", "0s", "--target", listener.Addr().String(), "--json", "-o", directory)
	command.Stderr = testWriter{t}
	output, err := command.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != exitInvalid) {
		t.Fatal(err)
	}
	var object struct {
		Cells []struct {
			Requests  int      `json:"requests"`
			Errors    int      `json:"errors"`
			ServerCPU *float64 `json:"server_cpu_us"`
		} `json:"cells"`
	}
	if err := json.Unmarshal(output, &object); err != nil {
		t.Fatal(err)
	}
	if len(object.Cells) != 1 || object.Cells[0].Errors != 0 || (object.Cells[0].ServerCPU != nil) != (runtime.GOOS == "linux") {
		t.Errorf("want one cell without errors and, on Linux, with the server's cost, got %+v", object.Cells)
	}
}

// answerAll sends back what comes, with a timestamp.
func answerAll(conn net.Conn) {
	defer conn.Close()
	for {
		body, err := readFrame(conn)
		if err != nil {
			return
		}
		var p echopb.Payload
		if proto.Unmarshal(body, &p) != nil {
			return
		}
		p.Timestamp = 1
		answer, err := proto.Marshal(&p)
		if err != nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// A worker in another language serves, where the variant says so, and not wirelab's own.
func TestServeByAPeer(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler (the package gcc)")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	conn, err := net.Dial("tcp", serving(t, "--stack", "tcp:server=c"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// Only that one gives back whatever a frame holds.
	said := []byte("\x00\x00\x00\x05hello")
	if _, err := conn.Write(said); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, len(said))
	if _, err := io.ReadFull(conn, answer); err != nil || !bytes.Equal(answer, said) {
		t.Errorf("it answered %q, %v", answer, err)
	}
}
