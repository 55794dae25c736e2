// Package advice imports nothing here.
package advice
