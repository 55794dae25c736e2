// Package failure classifies the errors of failed calls by their cause: a limit of the
// machine, the network, the handshake, the protocol, or the application's own answer.
//
// It gets an error as the adapter returned it, and looks at
//
//  1. a class that was added to the error with As;
//  2. the types in its chain: handshake.go, kernel.go, protocol.go;
//  3. its text, if a library has turned the cause into text and the library's source
//     makes that text exact: text.go.
//
// This package must not know any stack, nor count anything.
package failure

import (
	"context"
	"errors"
	"io"
	"net"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Of returns the class of a call's error.
func Of(err error) Class {
	if own, ok := errors.AsType[*marked](err); ok {
		return own.class
	}
	for _, look := range []func(error) Class{ofHandshake, ofText, ofKernel, ofProtocol, ofEnd} {
		if class := look(err); class != "" {
			return class
		}
	}
	if _, is := status.FromError(err); is && err != nil {
		return Application
	}
	return Unknown
}

// ofEnd classifies errors that say only that the call ended.
func ofEnd(err error) Class {
	code := status.Code(err)
	switch {
	case code == codes.Canceled, errors.Is(err, context.Canceled):
		return Cancelled
	case code == codes.DeadlineExceeded, isTimeout(err):
		return Deadline
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return Closed
	}
	return ""
}

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// InHandshake adds HandshakeTimeout to a timeout of a handshake: only the code that does
// the handshake can tell it from other timeouts.
func InHandshake(err error) error {
	if isTimeout(err) {
		return As(HandshakeTimeout, err)
	}
	return err
}
