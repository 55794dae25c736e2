package lab

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/wire/service"
)

// burntTime is the CPU time that a process of a staged service uses when it is told to.
const burntTime = 400 * time.Millisecond

// serveStaged is a process of a staged service. It prints its number and its address, and obeys the lines of its input: "burn" uses the CPU time of burntTime, "fork" lets a child do so.
func serveStaged(in io.Reader, out io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, os.Getpid(), listener.Addr())
	var child *stagedProcess
	for lines := bufio.NewScanner(in); lines.Scan(); {
		switch lines.Text() {
		case "burn":
			burnCPU()
		case "fork":
			if child, err = startStaged(exec.Command(os.Args[0], "staged-service")); err == nil {
				err = child.tell("burn")
			}
		case "end":
			err = child.end()
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "done")
	}
	return nil
}

// burnCPU uses many threads, so that it gets its share also on a busy machine.
func burnCPU() {
	before, _ := probe.ReadProcess(os.Getpid())
	var enough atomic.Bool
	for range 8 {
		go func() { // until enough is true
			for spins := 0; !enough.Load(); spins++ {
			}
		}()
	}
	for {
		now, err := probe.ReadProcess(os.Getpid())
		if err != nil || now.CPU()-before.CPU() >= burntTime {
			enough.Store(true)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

type stagedProcess struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	pid     int
	address string
}

func startStaged(command *exec.Cmd) (*stagedProcess, error) {
	p := &stagedProcess{command: command}
	var err error
	if p.in, err = command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := command.Start(); err != nil {
		return nil, err
	}
	_, err = fmt.Fscanln(p.out, &p.pid, &p.address)
	return p, err
}

// tell gives an order and waits until it is carried out.
func (p *stagedProcess) tell(order string) error {
	fmt.Fprintln(p.in, order)
	_, err := p.out.ReadString('\n')
	return err
}

func (p *stagedProcess) end() error {
	_ = p.in.Close()
	return p.command.Wait()
}

// stageService starts a process that is no child of the test: a shell between them has ended.
func stageService(t *testing.T) *stagedProcess {
	t.Helper()
	p, err := startStaged(exec.Command("sh", "-c", `exec 3<&0; "$0" staged-service <&3 3<&- &`, os.Args[0]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.end() })
	return p
}

// A back end of the service is a neighbour, unless the user names it: then its CPU time is the service's.
func TestNamedProcessesBelongToTheService(t *testing.T) {
	front, back := stageService(t), stageService(t)
	definition, err := (&service.Definition{Wire: service.HTTP1, Network: "tcp", Address: front.address}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, also := range [][]int{nil, {back.pid}} {
		l := newLab(t)
		l.Targets, l.Also = map[string]string{service.StackName: front.address}, also
		l.Definitions = map[string]string{service.StackName: definition}
		one := &trial{lab: l, planned: scenario.PlannedCell{Cell: scenario.Cell{Variant: scenario.Variant{Stack: service.StackName}}}}
		one.block = &block{lab: l, trials: []*trial{one}}
		one.block.findServices()
		watch := host.StartActivityWatch()
		server, err := one.startServer(t.Context(), &record.Record{})
		if err != nil {
			t.Fatal(err)
		}
		if err := back.tell("burn"); err != nil {
			t.Fatal(err)
		}
		if _, err := server.stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		var seen record.HostState
		_, own := watch.FillHostState(&seen, server.cpuTime(), server.pids()...)
		isNeighbour := slices.ContainsFunc(seen.Neighbours, func(n record.Neighbour) bool { return n.PID == back.pid })
		isService := server.cpuTime() >= burntTime
		if named := also != nil; isNeighbour == named || isService != named || isService && own < burntTime {
			t.Errorf("with %v named: the service used %v, and wirelab with it %v; the neighbours are %+v", also, server.cpuTime(), own, seen.Neighbours)
		}
	}
}

// The children of a service count, from their start, and after their end.
func TestServiceFamilyFollowsChildren(t *testing.T) {
	front := stageService(t)
	family := newServiceFamily(host.ReadProcessTable(), []int{front.pid})
	read := func() time.Duration {
		t.Helper()
		family.foundAt = time.Time{}
		usage, err := family.read()
		if err != nil {
			t.Fatal(err)
		}
		return usage.CPU()
	}
	idle := read()
	if err := front.tell("fork"); err != nil {
		t.Fatal(err)
	}
	burnt := read()
	if pids := family.processes(); burnt < idle+burntTime || len(pids) != 2 {
		t.Errorf("with a child: %v after %v, processes %v; want %v more, of two", burnt, idle, pids, burntTime)
	}
	if err := front.tell("end"); err != nil {
		t.Fatal(err)
	}
	if ended, pids := read(), family.processes(); ended < burnt || len(pids) != 1 {
		t.Errorf("after the child's end: %v after %v, processes %v; want no less, of one", ended, burnt, pids)
	}
}
