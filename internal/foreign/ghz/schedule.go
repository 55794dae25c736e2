package ghz

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/foreign/flags"
)

// maxSteps limits the number of concurrency levels in a translated schedule.
const maxSteps = 12

// A schedule describes how ghz changes the rate or the number of workers while it runs.
type schedule struct {
	kind       string // step or line
	prefix     string // prefix of the schedule's flags, for messages
	start, end float64
	step       float64
	every      time.Duration
	limit      time.Duration // time limit of the change; zero means none
}

// readSchedule reads the schedule flags with the prefix. It returns nil if there are none.
func readSchedule(c *flags.Command, prefix string) (*schedule, error) {
	s := &schedule{kind: c.Last(prefix + "-schedule"), prefix: prefix, step: 1, every: time.Second}
	switch s.kind {
	case "", "const":
		return nil, nil
	case "step", "line":
	default:
		return nil, fmt.Errorf("%s-schedule %s: want step or line", prefix, flags.Excerpt(s.kind))
	}
	for flag, into := range map[string]*float64{"-start": &s.start, "-end": &s.end, "-step": &s.step} {
		if text := c.Last(prefix + flag); text != "" {
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("%s%s %s: want a whole number", prefix, flag, flags.Excerpt(text))
			}
			*into = float64(n)
		}
	}
	if text := c.Last(prefix + "-step-duration"); text != "" && s.kind == "step" {
		if s.every = flags.ParseClock(text); s.every < time.Millisecond {
			return nil, fmt.Errorf("%s-step-duration %s: want a duration, as in 5s", prefix, flags.Excerpt(text))
		}
	}
	if text := c.Last(prefix + "-max-duration"); text != "" {
		s.limit = flags.ParseClock(text)
	}
	if s.step == 0 || s.start < 0 || s.end < 0 {
		return nil, fmt.Errorf("%s-schedule %s: want %s-step other than zero, and no negative numbers", prefix, s.kind, prefix)
	}
	return s, nil
}

// course returns the duration of the change and the last value. calls limits the duration.
func (s *schedule) course(calls float64) (time.Duration, float64, error) {
	perSecond := s.step / s.every.Seconds()
	lasts := s.limit
	if s.end > 0 {
		toEnd := time.Duration((s.end - s.start) / perSecond * float64(time.Second))
		if toEnd <= 0 {
			return 0, 0, fmt.Errorf("%s-end %s is never reached from %s by steps of %s", s.prefix, flags.FormatNumber(s.end), flags.FormatNumber(s.start), flags.FormatNumber(s.step))
		}
		if lasts == 0 || toEnd < lasts {
			return toEnd, s.end, nil
		}
	}
	if lasts == 0 {
		// start·t + perSecond·t²/2 = calls
		root := s.start*s.start + 2*perSecond*calls
		if calls == 0 || root <= 0 {
			return 0, 0, fmt.Errorf("%s-schedule %s has no end: give %s-end or %s-max-duration", s.prefix, s.kind, s.prefix, s.prefix)
		}
		t := (math.Sqrt(root) - s.start) / perSecond
		lasts = time.Duration(math.Round(t)) * time.Second
	}
	if lasts < time.Second {
		lasts = time.Second
	}
	return lasts, max(1, math.Round(s.start+perSecond*lasts.Seconds())), nil
}

func settleSchedules(c *flags.Command) error {
	rate, err := readSchedule(c, "--load")
	if err != nil {
		return err
	}
	workers, err := readSchedule(c, "--concurrency")
	if err != nil {
		return err
	}
	switch {
	case rate != nil && workers != nil:
		return fmt.Errorf("--load-schedule and --concurrency-schedule of ghz: only one can vary: give --ramp-to for the rate, or --steps for the clients")
	case rate != nil:
		return rate.ramp(c)
	case workers != nil:
		return workers.steps(c)
	}
	return nil
}

func (s *schedule) ramp(c *flags.Command) error {
	calls, _ := strconv.ParseFloat(c.Get("-n"), 64)
	if !c.Has("-n") && c.Pasted {
		calls = 200
	}
	lasts, end, err := s.course(calls)
	if err != nil {
		return err
	}
	c.Set("--rps", flags.FormatNumber(max(1, s.start)))
	c.Set("--ramp-to", flags.FormatNumber(end))
	c.Set("-z", flags.ShortDuration(lasts.Round(time.Second)))
	if c.Has("-n") {
		c.Note("-n %s is left out: the ramp ends by its duration", c.Get("-n"))
		c.Unset("-n")
	}
	c.Note("--load-schedule %s is a straight ramp: --rps %s --ramp-to %s -z %s; for the constant rate that ghz sends afterwards, start another run", s.kind, c.Get("--rps"), c.Get("--ramp-to"), c.Get("-z"))
	return nil
}

func (s *schedule) steps(c *flags.Command) error {
	lasts, end, err := s.course(0)
	if err != nil {
		return err
	}
	count := int(math.Abs(end-s.start)/math.Abs(s.step)+0.5) + 1
	each := s.every
	if s.kind == "line" || count > maxSteps {
		count = min(count, maxSteps)
		each = max(time.Second, (lasts / time.Duration(count)).Round(time.Second))
	}
	figures := []string{}
	for i := range count {
		at := s.start + (end-s.start)*float64(i)/float64(max(1, count-1))
		figures = append(figures, flags.FormatNumber(max(1, math.Round(at))))
	}
	c.Set("--steps", strings.Join(figures, ","))
	c.Set("-z", flags.ShortDuration(each))
	c.Unset("-c")
	if c.Has("-n") {
		c.Note("-n %s is left out: each step ends by its duration", c.Get("-n"))
		c.Unset("-n")
	}
	c.Note("--concurrency-schedule %s is --steps %s with -z %s for each", s.kind, c.Get("--steps"), c.Get("-z"))
	return nil
}
