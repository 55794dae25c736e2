//go:build linux && !386 && race

package batchio

func init() { rawOff, raceOn = true, true }
