// Package attic is in no room.
package attic
