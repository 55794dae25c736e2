// Package spelling finds the known word that a misspelt word probably means, such as an option, a
// field or a method. The caller supplies the known words.
package spelling

import "strings"

// Suggest returns the end of an error about an unknown word: the probable word, or all known words.
func Suggest(word string, among []string) string {
	if meant, found := ClosestWord(word, among); found {
		return "did you mean " + meant + "?"
	}
	return "want one of " + strings.Join(among, ", ")
}

// ClosestWord returns the known word that a misspelt word probably means.
func ClosestWord(word string, among []string) (meant string, found bool) {
	for slips := 1; slips <= 2; slips++ {
		for _, candidate := range among {
			// Words with too many mistakes for their length, such as 2 in 3 letters, do not match.
			if slips <= (len(candidate)+1)/3 && distance(word, candidate) == slips {
				return candidate, true
			}
		}
	}
	return "", false
}

// distance returns the fewest insertions, removals, replacements and swaps that turn a into b.
func distance(a, b string) int {
	// rows[i][j] is the distance between the first i letters of a and the first j letters of b.
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range b {
		rows[0][j+1] = j + 1
	}
	for i := range a {
		for j := range b {
			replaced := rows[i][j]
			if a[i] != b[j] {
				replaced++
			}
			rows[i+1][j+1] = min(replaced, rows[i][j+1]+1, rows[i+1][j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				rows[i+1][j+1] = min(rows[i+1][j+1], rows[i-1][j-1]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
