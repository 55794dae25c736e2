// Package batchio may be imported by a public library.
package batchio
