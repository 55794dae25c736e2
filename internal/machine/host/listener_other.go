//go:build !linux

package host

// Listeners knows of none: only Linux tells who listens in a way that is read here.
func Listeners(string, string) []int { return nil }
