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
	rounds            = 3 // number of measurements with the probe
	batchesPerRound   = 2
	callsPerBatch     = 10_000 // takes some milliseconds
	exchangesPerBatch = 300    // takes some milliseconds
)

// Measure measures the cost of a probe. It takes 0.1 to 0.2 seconds.
func Measure(start func() (probe.Watch, error)) (p Prices, err error) {
	// Measuring pins the thread, so use a thread that ends afterwards.
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
	last := cpus[len(cpus)-1:] // the last CPU has fewer interrupts than the first
	if err := host.PinThread(last); err != nil {
		return p, err
	}
	echo, err := startEcho(last)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, echo.stop()) }()
	bare, watched := infiniteTimes, infiniteTimes
	err = echo.measureShortest(&bare)
	for turn := 0; turn < rounds && err == nil; turn++ {
		if err = echo.measureWatched(start, &watched); err == nil {
			err = echo.measureShortest(&bare)
		}
	}
	return Prices{Syscall: RoundTrip{bare[0], watched[0]}, Switch: RoundTrip{bare[1], watched[1]}}, err
}

// times holds the duration of a system call and of a byte exchange, in nanoseconds.
type times [2]float64

var infiniteTimes = times{math.Inf(1), math.Inf(1)}

// measureWatched measures while the probe runs. It reduces the times in shortest to the new times
// if these are shorter.
func (e *echo) measureWatched(start func() (probe.Watch, error), shortest *times) error {
	watch, err := start()
	if err != nil {
		return err
	}
	err = watch.AddProcess(probe.Server, os.Getpid())
	if err == nil {
		err = e.measureShortest(shortest)
	}
	_, _ = watch.Stop(probe.MeasuredWindow{}) // the findings are not needed
	return err
}

// An echo is a thread that returns every byte that it receives.
type echo struct {
	there, back [2]int // pipes to the thread and back
	ended       chan error
}

func startEcho(cpus []int) (*echo, error) {
	e := &echo{ended: make(chan error, 1)}
	for _, pipe := range []*[2]int{&e.there, &e.back} {
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			return nil, fmt.Errorf("make a pipe: %w", err)
		}
	}
	go func() { // ends when stop closes the pipe
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

func (e *echo) measureShortest(shortest *times) error {
	for range batchesPerRound {
		begin := clock.Now()
		for range callsPerBatch {
			_ = unix.Getppid()
		}
		shortest[0] = min(shortest[0], float64(clock.Now()-begin)/callsPerBatch)
		begin = clock.Now()
		for range exchangesPerBatch {
			if err := e.exchange(); err != nil {
				return err
			}
		}
		shortest[1] = min(shortest[1], float64(clock.Now()-begin)/exchangesPerBatch)
	}
	return nil
}

func (e *echo) exchange() error {
	var one [1]byte
	if _, err := unix.Write(e.there[1], one[:]); err != nil {
		return fmt.Errorf("send a byte to the echo thread: %w", err)
	}
	for {
		n, err := unix.Read(e.back[0], one[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || n == 0:
			return fmt.Errorf("receive a byte from the echo thread: read %d bytes: %w", n, err)
		}
		return nil
	}
}

func (e *echo) stop() error {
	return errors.Join(unix.Close(e.there[1]), <-e.ended, unix.Close(e.back[0]))
}
