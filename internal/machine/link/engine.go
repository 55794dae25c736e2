package link

// choose returns the engine for the settings, of those that the kernel has.
//
// The kernel's engines are nearer to a real network's timing, and cost no CPU of the
// trial's. They are taken where they do just what was asked for: tbf for a rate alone,
// netem for a delay alone. netem's losses follow no seed before Linux 6.6, its jitter changes
// the order, its queue counts packets and it tells losses from a full queue by nothing.
func (s Settings) choose(has func(Engine) bool) Engine {
	var rates, delays, others bool
	for _, p := range []Path{s.Up, s.Down} {
		rates = rates || p.Rate != 0
		delays = delays || p.Delay != 0
		p.Rate, p.Delay = 0, 0
		others = others || p.acts()
	}
	switch {
	case !rates && !delays && !others && !s.Emulated:
		return Direct
	case rates && !delays && !others && has(TBF):
		return TBF
	case delays && !rates && !others && has(Netem):
		return Netem
	}
	return Frames
}
