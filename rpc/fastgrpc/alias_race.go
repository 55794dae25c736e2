//go:build race

package fastgrpc

func init() { checkAliases = true }
