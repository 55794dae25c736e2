package price

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

const (
	turns     = 3 // with the probe and without
	batches   = 2
	calls     = 10_000 // per batch: some ms
	exchanges = 300    // per batch: some ms
)

// Measure measures a probe, in 0.1 to 0.2 seconds.
func Measure(start func() (probe.Watch, error)) (p Prices, err error) {
	// The thread ends after the measurement, and its pinning with it.
	err = host.OnDisposableThread(func() error {
		p, err = measure(start)
		return err
	})
	return p, err
}

func measure(start func() (probe.Watch, error)) (p Prices, err error) {
	cpus, err := host.AllowedCPUs()
	if err != nil {
		return p, err
	}
	last := cpus[len(cpus)-1:] // the first CPUs have more interrupts
	if err := host.PinThread(last); err != nil {
		return p, err
	}
	echo, err := startEcho(last)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, echo.stop()) }()
	bare, watched := unknown, unknown
	err = echo.shorten(&bare)
	for turn := 0; turn < turns && err == nil; turn++ {
		if err = echo.watched(start, &watched); err == nil {
			err = echo.shorten(&bare)
		}
	}
	return Prices{Syscall: RoundTrip{bare[0], watched[0]}, Switch: RoundTrip{bare[1], watched[1]}}, err
}

// times holds the times of a system call and of an exchange, in nanoseconds.
type times [2]float64

var unknown = times{math.Inf(1), math.Inf(1)}

// watched shortens times, measured under the probe, to the shortest so far.
func (e *echo) watched(start func() (probe.Watch, error), shortest *times) error {
	watch, err := start()
	if err != nil {
		return err
	}
	err = watch.Process(probe.Server, os.Getpid())
	if err == nil {
		err = e.shorten(shortest)
	}
	_, _ = watch.Stop(probe.Measured{}) // its findings are not used
	return err
}

// An echo is a thread that sends back every byte it receives.
type echo struct {
	there, back [2]int // pipes
	ended       chan error
}

func startEcho(cpus []int) (*echo, error) {
	e := &echo{ended: make(chan error, 1)}
	for _, pipe := range []*[2]int{&e.there, &e.back} {
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			return nil, fmt.Errorf("make a pipe: %w", err)
		}
	}
	go func() { // ends when the pipe is closed
		e.ended <- host.OnDisposableThread(func() error {
			if err := host.PinThread(cpus); err != nil {
				return errors.Join(err, unix.Close(e.back[1]))
			}
			var one [1]byte
			for {
				if n, err := unix.Read(e.there[0], one[:]); n == 0 || err != nil && !errors.Is(err, unix.EINTR) {
					return errors.Join(err, unix.Close(e.there[0]), unix.Close(e.back[1]))
				}
				if _, err := unix.Write(e.back[1], one[:]); err != nil {
					return err
				}
			}
		})
	}()
	return e, nil
}

// shorten measures, and keeps each time that is shorter than the shortest so far.
func (e *echo) shorten(shortest *times) error {
	for range batches {
		begin := clock.Now()
		for range calls {
			_ = unix.Getppid()
		}
		shortest[0] = min(shortest[0], float64(clock.Now()-begin)/calls)
		begin = clock.Now()
		for range exchanges {
			if err := e.exchange(); err != nil {
				return err
			}
		}
		shortest[1] = min(shortest[1], float64(clock.Now()-begin)/exchanges)
	}
	return nil
}

func (e *echo) exchange() error {
	var one [1]byte
	if _, err := unix.Write(e.there[1], one[:]); err != nil {
		return fmt.Errorf("send a byte: %w", err)
	}
	for {
		n, err := unix.Read(e.back[0], one[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || n == 0:
			return fmt.Errorf("receive a byte: %d, %w", n, err)
		}
		return nil
	}
}

func (e *echo) stop() error {
	return errors.Join(unix.Close(e.there[1]), <-e.ended, unix.Close(e.back[0]))
}
