package rpccall

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A scripted listener returns its errors from Accept in turn, or a connection for nil.
type scripted struct {
	net.Listener
	left []error
}

func (s *scripted) Accept() (net.Conn, error) {
	err := s.left[0]
	s.left = s.left[1:]
	if err != nil {
		return nil, err
	}
	return &net.TCPConn{}, nil
}

// TestAcceptPauses checks that a temporary error is waited out, twice as long each time
// and no longer than a second, and that a connection shortens the pause again.
func TestAcceptPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := syscall.EMFILE
		lis := &scripted{left: []error{full, full, nil, full, nil, net.ErrClosed}}
		var at []time.Duration
		began := time.Now()
		err := Accept(lis, make(chan struct{}), func(net.Conn) { at = append(at, time.Since(began)) })
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("ended with %v, want %v", err, net.ErrClosed)
		}
		if len(at) != 2 || at[0] != 15*time.Millisecond || at[1] != 20*time.Millisecond {
			t.Errorf("accepted after %v, want 15ms and 20ms", at)
		}
		lis.left = nil
		for range 20 {
			lis.left = append(lis.left, full)
		}
		lis.left = append(lis.left, net.ErrClosed)
		began = time.Now()
		_ = Accept(lis, make(chan struct{}), nil)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("20 errors took %v, want less than a second each", took)
		}
	})
}

// TestAcceptStops checks that no error is returned when stopping, in a pause either.
func TestAcceptStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopping := make(chan struct{})
		time.AfterFunc(time.Millisecond, func() { close(stopping) })
		began := time.Now()
		if err := Accept(&scripted{left: []error{syscall.EMFILE}}, stopping, nil); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Millisecond {
			t.Errorf("stopping took %v of a pause of 5ms, want 1ms", took)
		}
		if err := Accept(&scripted{left: []error{net.ErrClosed}}, stopping, nil); err != nil {
			t.Error(err)
		}
	})
}
