// Package rebuild builds wirelab's own program with another Go runtime: one whose allocator
// takes objects up to another size for small ones. The toolchain stays as it is: of the
// runtime one file differs, the table of size classes, which the go command takes from an
// overlay.
//
// The table is made here by the rules of the toolchain's own generator. That they are its
// rules is tried first: for the usual limit they must give the toolchain's own table. A
// toolchain for which they do not is refused.
package rebuild
