//go:build !linux

package selftest

import (
	"syscall"
	"time"
)

func schedule(c class) error {
	if c == usual {
		return nil
	}
	return errNotHere
}

func setReceiveBuffer(syscall.RawConn, int) error      { return errNotHere }
func pause(int, time.Duration)                         {}
func moveTo(int, []int) error                          { return errNotHere }
func pageOut(int) error                                { return errNotHere }
func withoutHugePages() (undo func() error, err error) { return nil, errNotHere }
func enterOtherTime(time.Duration) error               { return errNotHere }
func enterWithNames(server, directory string) error    { return errNotHere }
func stepClock(time.Duration) error                    { return errNotHere }
