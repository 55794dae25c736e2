// Package clock is at the bottom.
package clock
