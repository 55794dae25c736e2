package record

type b int

func (b) limit() int { return most }
