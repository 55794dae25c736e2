package versions

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"wirelab.dev/internal/base/system"
	"wirelab.dev/internal/machine/host"
)

// KeeperCommand is the name of wirelab's command that runs Keep.
const KeeperCommand = "keep-version"

type keeperSpec struct {
	Version
	CPUs []int
	Nice int
}

// A keeperEvent is a line of a keeper's output: the first says how the command started, the second
// how it ended.
type keeperEvent struct {
	Error    string   `json:"error,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Ended    string   `json:"ended,omitempty"`
}

const (
	// gracePeriod is the time between the request to end and the kill.
	gracePeriod = 2 * time.Second
	// killPeriod is the time between two searches for descendants that live on.
	killPeriod = 5 * time.Millisecond
	// killRounds limits the searches. A process that survives this many kills is in the kernel.
	killRounds = 400
)

// Keep runs a command until its input ends, and then ends the command and all its descendants. The
// input ends when wirelab stops it, and also when wirelab is killed. Descendants that have left
// their parents or their session are found, too: the kernel gives them to the keeper.
func Keep(_ context.Context, in io.Reader, out io.Writer) error {
	// If wirelab was killed, the keeper's output is a broken pipe, and the signal would end the keeper early.
	signal.Ignore(syscall.SIGPIPE)
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	orders := bufio.NewReader(in)
	var spec keeperSpec
	line, err := orders.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &spec)
	}
	if err != nil {
		return fmt.Errorf("read what to keep: %w", err)
	}
	events := json.NewEncoder(out)
	if err := host.AdoptOrphans(); err != nil {
		return events.Encode(keeperEvent{Error: err.Error()})
	}
	command, warnings, err := spec.start()
	if err != nil {
		return events.Encode(keeperEvent{Error: err.Error()})
	}
	_ = events.Encode(keeperEvent{Warnings: warnings}) // if wirelab is gone, the input ends, too
	ended := make(chan struct{})
	go func() { // until the command ends, which endAll waits for
		how := "exit status 0"
		if err := command.Wait(); err != nil {
			how = err.Error()
		}
		_ = events.Encode(keeperEvent{Ended: how})
		close(ended)
	}()
	over := make(chan struct{})
	go func() { // until the input ends, or this process
		_, _ = io.Copy(io.Discard, orders)
		close(over)
	}()
	select {
	case <-over:
	case <-asked:
	}
	endAll(ended)
	return nil
}

// start starts the command.
func (spec *keeperSpec) start() (*exec.Cmd, []string, error) {
	log, err := os.Create(spec.Log)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = log.Close() }()                // the command has its own descriptor
	command := exec.Command("sh", "-c", spec.Command) //nolint:gosec // the user's own command
	command.Dir, command.Stdout, command.Stderr = spec.Folder, log, log
	command.Env = append(os.Environ(), PortVariable+"="+strconv.Itoa(spec.Port))
	warnings, err := host.StartPinned(command, host.StartOptions{CPUs: spec.CPUs, Nice: spec.Nice})
	return command, warnings, err
}

// endAll asks all descendants to end, and kills those that live on after the grace period.
func endAll(ended <-chan struct{}) {
	signalAll(system.Terminate)
	grace := time.NewTimer(gracePeriod)
	select {
	case <-ended:
	case <-grace.C:
		signalAll(system.Kill)
		<-ended
	}
	for range killRounds { // those that the command has left behind
		host.ReapOrphans()
		if signalAll(system.Kill) == 0 {
			return
		}
		time.Sleep(killPeriod)
	}
}

// signalAll ends all descendants, and returns their number.
func signalAll(end func(pid int) error) int {
	own := os.Getpid()
	family := slices.DeleteFunc(host.ReadProcessTable().Family(own), func(pid int) bool { return pid == own })
	for _, pid := range family {
		_ = end(pid) // it may have ended
	}
	return len(family)
}
