//go:build !race

package fastgrpc

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"wirelab.dev/rpc/fastgrpc/internal/message"
)

// TestCheckAliases checks that FASTGRPC_ALIAS=check shows who breaks the rules. The
// race detector would report it.
func TestCheckAliases(t *testing.T) {
	if os.Getenv(message.AliasEnvVar) == "" {
		checker := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		checker.Env = append(os.Environ(), message.AliasEnvVar+"=check")
		if out, err := checker.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	k := keeper{kept: make(chan []byte, 1)}
	c := testgrpc.NewTestServiceClient(dialFast(t, serveTest(t, NewServer(AliasRequests()), k)))
	if _, err := c.UnaryCall(testContext(t), request(bytes.Repeat([]byte{9}, 3000))); err != nil {
		t.Fatal(err)
	}
	got := <-k.kept
	k.kept <- nil
	overwrite(t, c)
	if want := bytes.Repeat([]byte{message.ReleasedByte}, 3000); !bytes.Equal(got, want) {
		t.Errorf("a message that was kept became %x…, want %x…", got[:16], want[:16])
	}
}
