//go:build linux && !386 && race

package fastgrpc

func init() { rawOff, raceOn = true, true }
