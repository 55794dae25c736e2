package record

func apart(of Record) int { return most }
