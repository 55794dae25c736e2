// Package stack is a seam.
package stack
