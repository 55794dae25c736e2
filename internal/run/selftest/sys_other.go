//go:build !linux

package selftest

import (
	"syscall"
	"time"
)

func setThreadClass(c schedulingClass) error {
	if c == normalClass {
		return nil
	}
	return errNotSupported
}

func setReceiveBuffer(syscall.RawConn, int) error             { return errNotSupported }
func pauseProcess(int, time.Duration)                         {}
func moveToCPUs(int, []int) error                             { return errNotSupported }
func pageOut(int) error                                       { return errNotSupported }
func disableHugePages() (undo func() error, err error)        { return nil, errNotSupported }
func enterTimeNamespace(time.Duration) error                  { return errNotSupported }
func enterNameServerNamespace(server, directory string) error { return errNotSupported }
func stepClock(time.Duration) error                           { return errNotSupported }
