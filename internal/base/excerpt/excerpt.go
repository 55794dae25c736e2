// Package excerpt shortens texts for messages.
package excerpt

import "unicode/utf8"

// Start returns the first characters of a text. It appends … if it leaves characters out.
func Start(text string, most int) string {
	for at := range text {
		if most == 0 {
			return text[:at] + "…"
		}
		most--
	}
	return text
}

// End returns the last characters of a text. It begins with … if it leaves characters out.
func End(text string, most int) string {
	at := len(text)
	for ; at > 0 && most > 0; most-- {
		_, size := utf8.DecodeLastRuneInString(text[:at])
		at -= size
	}
	if at == 0 {
		return text
	}
	return "…" + text[at:]
}
