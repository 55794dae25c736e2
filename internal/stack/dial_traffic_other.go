//go:build !linux

package stack

// socketTraffic is not known: TCP_INFO in this form is Linux's.
func socketTraffic(int) (Traffic, bool) { return Traffic{}, false }
