//go:build !linux

package gauntlet

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
func quotaGroup(float64) (string, error)               { return "", errNotHere }
func join(string, int) error                           { return errNotHere }
func groupFolders() []string                           { return nil }
func withoutHugePages() (undo func() error, err error) { return nil, errNotHere }
func enterOtherTime(time.Duration) error               { return errNotHere }
func enterWithNames(server, directory string) error    { return errNotHere }
func stepClock(time.Duration) error                    { return errNotHere }
