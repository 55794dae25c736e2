package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"wirelab.dev/internal/machine/host"
)

// mixOfAPeer is the role mix.
func mixOfAPeer() error {
	which, err := strconv.Atoi(os.Getenv(peersVariable))
	if err != nil {
		return err
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	return mix(context.Background(), allPeers[which], lis, nil, mixCalls)
}

// peersVariable is the index in allPeers of those that the role mix uses.
const peersVariable = "FASTGRPC_LOAD_PEERS"

const mixCalls = 600

// TestProcessors runs a mix of calls with one, two and four processors at both ends, which
// share a process.
func TestProcessors(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the mixes of calls take some seconds")
	}
	for _, processors := range []int{1, 2, 4} {
		for i, p := range allPeers {
			t.Run(fmt.Sprintf("GOMAXPROCS=%d %s", processors, p.name), func(t *testing.T) {
				t.Parallel()
				runMix(t, i, fmt.Sprintf("GOMAXPROCS=%d", processors), "")
			})
		}
	}
}

// TestHalfACPU runs it where the kernel stops both ends for half of each tenth of a second.
func TestHalfACPU(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the mixes of calls take some seconds")
	}
	for i, p := range allPeers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			folder, err := host.NewQuotaGroup(fmt.Sprintf("fastgrpc-load-%d-%d", os.Getpid(), i), 0.5)
			if errors.Is(err, host.ErrUnsupported) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := os.Remove(folder); err != nil {
					t.Error(err)
				}
			})
			runMix(t, i, "GOMAXPROCS=2", folder)
			stat, err := os.ReadFile(filepath.Join(folder, "cpu.stat"))
			if err != nil || !granted.Match(stat) {
				t.Errorf("no CPU time was granted in portions: error %v\n%s", err, stat)
			}
		})
	}
}

// granted matches in both versions' cpu.stat once a process has run in the group.
var granted = regexp.MustCompile(`(?m)^nr_periods [1-9]`)

// runMix runs the role mix in a process of its own, in a control group unless it is "".
func runMix(t *testing.T, which int, variable, group string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=mix", peersVariable+"="+strconv.Itoa(which), variable)
	cmd.Stdout = os.Stdout
	var said limitedText
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if group != "" {
		if err := host.JoinControlGroup(group, cmd.Process.Pid); err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, said.text)
	}
}

// limitedText keeps the beginning of a process's output.
type limitedText struct{ text []byte }

func (l *limitedText) Write(p []byte) (int, error) {
	const most = 64 << 10
	l.text = append(l.text, p[:min(len(p), most-min(most, len(l.text)))]...)
	return len(p), nil
}
