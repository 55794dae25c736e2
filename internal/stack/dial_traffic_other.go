//go:build !linux

package stack

// socketTraffic reports nothing: only Linux has TCP_INFO in this form.
func socketTraffic(int) (Traffic, bool) { return Traffic{}, false }
