package h2

// table holds the open streams by identifier. Identifiers grow by two and most streams
// are short, so nearly all streams are in a ring, indexed by the identifier's low bits.
// A stream moves to the map when a newer one needs its place.
type table struct {
	ring  [tableRing]*Stream
	older map[uint32]*Stream
	n     int
}

const tableRing = 256

func (t *table) slot(id uint32) **Stream { return &t.ring[id/2%tableRing] }

func (t *table) get(id uint32) *Stream {
	if s := *t.slot(id); s != nil && s.id == id {
		return s
	}
	if len(t.older) == 0 {
		return nil
	}
	return t.older[id]
}

// put adds a stream that is newer than all others.
func (t *table) put(s *Stream) {
	slot := t.slot(s.id)
	if old := *slot; old != nil {
		if t.older == nil {
			t.older = make(map[uint32]*Stream)
		}
		t.older[old.id] = old
	}
	*slot = s
	t.n++
}

func (t *table) remove(s *Stream) {
	if slot := t.slot(s.id); *slot == s {
		*slot = nil
	} else {
		delete(t.older, s.id)
	}
	t.n--
}

// each calls f for every stream; f may remove it.
func (t *table) each(f func(*Stream)) {
	for _, s := range t.ring[:] {
		if s != nil {
			f(s)
		}
	}
	for _, s := range t.older {
		f(s)
	}
}
