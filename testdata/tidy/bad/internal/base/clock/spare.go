// Package clock has another.
package clock
