// Package clock has a comment.
package clock
