package rebuild

import (
	"bytes"
	"fmt"
	"go/format"
	"regexp"
	"strconv"
	"strings"
)

// Constants of the runtime's table, runtime/_mkmalloc/constants.go.
const (
	usualLimit = 32 << 10 // of small objects
	leastAlign = 8
	smallStep  = 8
	smallMost  = 1024
	largeStep  = 128
	pageShift  = 13
	pageBytes  = 1 << pageShift
	tinyBytes  = 16
)

// A class is a size of small objects, and the pages that are cut into such objects.
type class struct{ size, pages int }

// classesUpTo returns the size classes for a limit, the empty one first: sizes far enough apart,
// with at most an eighth of a page lost.
func classesUpTo(limit int) []class {
	classes := []class{{}}
	align := leastAlign
	for size := align; size <= limit; size += align {
		if isPowerOfTwo(size) {
			switch {
			case size >= 2048:
				align = 256
			case size >= 128:
				align = size / 8
			case size >= 32:
				align = 16
			}
		}
		span := pageBytes
		for span%size > span/8 {
			span += pageBytes
		}
		last := &classes[len(classes)-1]
		if last.size > 0 && span/pageBytes == last.pages && span/size == span/last.size {
			last.size = size // as many of them fit
			continue
		}
		classes = append(classes, class{size, span / pageBytes})
	}
	for i := range classes[1:] { // as large as still fits as often
		c := &classes[i+1]
		span := c.pages * pageBytes
		c.size = max(c.size, span/(span/c.size)&^(largeStep-1))
	}
	return classes
}

func isPowerOfTwo(n int) bool { return n > 0 && n&(n-1) == 0 }

// divides reports whether the runtime's multiplication finds an object's number for every
// place in its pages.
func (c class) divides() bool {
	magic := ^uint32(0)/uint32(c.size) + 1
	for place := range c.pages*pageBytes + 1 {
		if uint32(uint64(place)*uint64(magic)>>32) != uint32(place/c.size) {
			return false
		}
	}
	return true
}

// table returns the text of internal/runtime/gc/sizeclasses.go for a limit.
func table(limit int) ([]byte, error) {
	classes := classesUpTo(limit)
	var most, mostPages int
	for _, c := range classes[1:] {
		if !c.divides() {
			return nil, fmt.Errorf("a limit of %d bytes: the runtime cannot number objects of %d bytes in %d pages", limit, c.size, c.pages)
		}
		most, mostPages = max(most, c.pages*pageBytes/c.size), max(mostPages, c.pages)
	}
	classOf := func(size int) int {
		for i, c := range classes {
			if c.size >= size {
				return i
			}
		}
		return 0 // the largest class has the limit's size
	}
	number := "uint16"
	if limit > 1<<16-1 {
		number = "uint32"
	}
	var code bytes.Buffer
	fmt.Fprintf(&code, "package gc\n\nconst (\nMinHeapAlign = %d\nMaxSmallSize = %d\nSmallSizeDiv = %d\nSmallSizeMax = %d\nLargeSizeDiv = %d\n", leastAlign, limit, smallStep, smallMost, largeStep)
	fmt.Fprintf(&code, "NumSizeClasses = %d\nPageShift = %d\nMaxObjsPerSpan = %d\nMaxSizeClassNPages = %d\nTinySize = %d\nTinySizeClass = %d\n)\n\n", len(classes), pageShift, most, mostPages, tinyBytes, classOf(tinyBytes))
	list := func(name, of, kind string, n int, value func(int) string) {
		values := make([]string, n)
		for i := range values {
			values[i] = value(i)
		}
		fmt.Fprintf(&code, "var %s = [%s]%s{%s}\n", name, of, kind, strings.Join(values, ", "))
	}
	list("SizeClassToSize", "NumSizeClasses", number, len(classes), func(i int) string { return strconv.Itoa(classes[i].size) })
	list("SizeClassToNPages", "NumSizeClasses", "uint8", len(classes), func(i int) string { return strconv.Itoa(classes[i].pages) })
	list("SizeClassToDivMagic", "NumSizeClasses", "uint32", len(classes), func(i int) string {
		if i == 0 {
			return "0"
		}
		return fmt.Sprintf("^uint32(0)/%d + 1", classes[i].size)
	})
	list("SizeToSizeClass8", "SmallSizeMax/SmallSizeDiv + 1", "uint8", smallMost/smallStep+1, func(i int) string { return strconv.Itoa(classOf(i * smallStep)) })
	list("SizeToSizeClass128", "(MaxSmallSize-SmallSizeMax)/LargeSizeDiv + 1", "uint8", (limit-smallMost)/largeStep+1, func(i int) string { return strconv.Itoa(classOf(smallMost + i*largeStep)) })
	return format.Source(code.Bytes())
}

// isUsual reports whether a toolchain's table is the one that is made here for the usual
// limit, but for comments.
func isUsual(theirs []byte) bool {
	ours, err := table(usualLimit)
	if err != nil {
		return false
	}
	bare := func(text []byte) string {
		text = regexp.MustCompile(`(?m)^//.*$`).ReplaceAll(text, nil)
		return strings.Join(strings.Fields(string(text)), " ")
	}
	return bare(ours) == bare(theirs)
}
