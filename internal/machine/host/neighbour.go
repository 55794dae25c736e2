package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// Activity holds the CPU times of the whole machine since it started. See
// [Activity.Since] for the times of a trial.
type Activity struct {
	at time.Time
	// busy, idle and stolen add up to the time of all CPUs. The kernel counts
	// them in hundredths of a second, so that short trials come out coarse.
	busy, idle, stolen time.Duration
	// stalled is the time in which a runnable task, anywhere, had no CPU.
	stalled     time.Duration
	hasPressure bool
}

// Neighbour holds the shares of CPU time, 0 to 1, that others used during a trial.
type Neighbour struct {
	StolenShare float64 // the hypervisor took it
	// OthersBusyShare leaves out the caller's own time. Interrupt work done for the
	// caller's traffic counts as others'.
	OthersBusyShare float64
	// Whole is the time of all CPUs. The other times are parts of it.
	Whole time.Duration
	// PressureShare is the part of the trial in which some task, the caller's
	// included, waited for a CPU; nil where the kernel does not count it.
	PressureShare *float64
}

// Snapshot reads the machine's CPU times (70 µs).
func Snapshot() (Activity, error) {
	return snapshot(os.DirFS("/"), time.Now())
}

func snapshot(root fs.FS, now time.Time) (Activity, error) {
	stat, err := readText(root, "proc/stat")
	if errors.Is(err, fs.ErrNotExist) {
		return Activity{}, fmt.Errorf("read CPU times: %w: it takes /proc/stat, as on Linux", ErrUnsupported)
	}
	if err != nil {
		return Activity{}, fmt.Errorf("read CPU times: %w", err)
	}
	activity, err := parseStat(stat)
	if err != nil {
		return Activity{}, err
	}
	activity.at = now
	if pressure, err := readText(root, "proc/pressure/cpu"); err == nil {
		activity.stalled, activity.hasPressure = parsePressure(pressure)
	}
	return activity, nil
}

// Since compares with an earlier snapshot. own is the CPU time that the
// caller's processes used in between.
func (a Activity) Since(earlier Activity, own time.Duration) Neighbour {
	var neighbour Neighbour
	if whole := a.whole() - earlier.whole(); whole > 0 {
		neighbour.Whole = whole
		neighbour.StolenShare = float64(a.stolen-earlier.stolen) / float64(whole)
		neighbour.OthersBusyShare = float64(max(0, a.busy-earlier.busy-own)) / float64(whole)
	}
	if elapsed := a.at.Sub(earlier.at); a.hasPressure && earlier.hasPressure && elapsed > 0 {
		share := float64(a.stalled-earlier.stalled) / float64(elapsed)
		neighbour.PressureShare = &share
	}
	return neighbour
}

func (a Activity) whole() time.Duration { return a.busy + a.idle + a.stolen }

// parseStat reads the first line of /proc/stat, proc_stat(5): user nice system
// idle iowait irq softirq steal guest guest_nice, where user and nice include
// both kinds of guest. The tick is 1/100 s (USER_HZ) wherever Go runs.
func parseStat(stat string) (Activity, error) {
	const tick = 10 * time.Millisecond
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return Activity{}, fmt.Errorf("read CPU times: /proc/stat begins %q, expected \"cpu\" and eight figures", line)
	}
	var activity Activity
	for i, field := range fields[1:9] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return Activity{}, fmt.Errorf("read CPU times: field %d of /proc/stat: %w", i+1, err)
		}
		spent := time.Duration(ticks) * tick
		switch i {
		case 3, 4:
			activity.idle += spent
		case 7:
			activity.stolen += spent
		default:
			activity.busy += spent
		}
	}
	return activity, nil
}

// parsePressure reads "some avg10=… avg60=… avg300=… total=MICROSECONDS".
func parsePressure(pressure string) (time.Duration, bool) {
	line, _, _ := strings.Cut(pressure, "\n")
	_, total, found := strings.Cut(line, "total=")
	if !found || !strings.HasPrefix(line, "some ") {
		return 0, false
	}
	microseconds, err := strconv.ParseInt(total, 10, 64)
	if err != nil {
		return 0, false
	}
	return time.Duration(microseconds) * time.Microsecond, true
}
