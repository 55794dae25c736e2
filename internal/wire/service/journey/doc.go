// Package journey makes the requests of users who do one thing after the other: who log in,
// look, think, and buy what they saw.
//
//	shop.yaml ── Parse ──> Script ── Sources ──> Next() → Request ──> answer
//	(goes to a worker)    (shared)  (one per user) ▲                     │
//	                                               └── Follow: expect, take
//
// A file is read strictly, and all in it is compiled when it is read: templates, conditions,
// and the names that they use.
//
// Glossary:
//
//	user    a client of the load: of one kind for its whole life, shared out by weight
//	step    one call
//	round   the steps of a user, from the first to the last, or to one that fails
//	think   the time from an answer to the user's next step
//	taken   a value out of an answer, for the steps after it in the same round
//
// This package must not know how requests are carried, nor when they are sent.
package journey
