//go:build linux && !386 && fastgrpc_noraw

package fastgrpc

func init() { rawOff = true }
