//go:build race

package message

func init() { CheckAliases = true }
