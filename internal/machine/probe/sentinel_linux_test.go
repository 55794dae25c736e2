package probe

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A real sentinel wakes up on the CPU that it was given, and says if its process has ended.
func TestSentinelsWatchThisMachine(t *testing.T) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !allowed.IsSet(cpu) {
		cpu++
	}
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	stop := make(chan struct{})
	close(stop)
	got := RunSentinels([]SentinelCPU{
		{CPU: cpu, PIDs: []int{os.Getpid()}, CPUs: 1}, {CPU: cpu, PIDs: []int{ended.Process.Pid}, CPUs: 1},
	}, stop)
	if one := got[0]; one.CPU != cpu || one.Problem != "" || one.Wakings != 1 || one.ToNS <= one.FromNS {
		t.Errorf("watched %+v", one)
	}
	if one := got[1]; one.Problem == "" || one.Wakings != 0 {
		t.Errorf("without its process it watched %+v", one)
	}
}
