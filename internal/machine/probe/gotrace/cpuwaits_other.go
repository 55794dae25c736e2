//go:build !linux

package gotrace

import (
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

type cpuWatch struct{}

func startCPUWatch() (*cpuWatch, error) { return nil, host.NeedsLinux("observe waits for CPUs") }

func (*cpuWatch) addProcess(probe.End, int) error { return nil }

func (*cpuWatch) stopWatching() (times [2]cpuTimes, _ error) { return times, nil }
