// Package probetest starts processes with few rights, in which probes see less.
package probetest
