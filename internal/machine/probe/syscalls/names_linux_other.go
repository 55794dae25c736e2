//go:build !amd64 && !arm64

package syscalls

var names map[int]string // all go by their numbers
