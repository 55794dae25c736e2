// Package spelling finds the known word that an unknown one probably means: an option, a field,
// a method. It knows no words of its own.
package spelling

import "strings"

// Suggest returns the end of an error about an unknown word: the word meant, or all known ones.
func Suggest(word string, among []string) string {
	if meant, found := ClosestWord(word, among); found {
		return "did you mean " + meant + "?"
	}
	return "want one of " + strings.Join(among, ", ")
}

// ClosestWord returns the known word that an unknown one probably means.
func ClosestWord(word string, among []string) (meant string, found bool) {
	for slips := 1; slips <= 2; slips++ {
		for _, candidate := range among {
			// Two slips in three letters leave too little to compare.
			if slips <= (len(candidate)+1)/3 && distance(word, candidate) == slips {
				return candidate, true
			}
		}
	}
	return "", false
}

// distance returns the fewest letters to insert, remove, replace or swap that turn a into b.
func distance(a, b string) int {
	// rows[i][j] is the distance of the first i letters of a from the first j of b.
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
