//go:build linux && !386 && fastgrpc_noraw

package batchio

func init() { rawOff = true }
