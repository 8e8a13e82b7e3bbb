// Package articles is a collection of the locks on Redis that articles teach, written anew as drivers, each with the one fault for which the
// article shows it or which it overlooks: SETNX and then EXPIRE, plain DEL, GET and then DEL, owners of four digits, a deadline of which nobody is
// told, … The package conformance must catch each by the cases that it names. Nobody should use them for anything else.
//
// They run on real servers. All but one step of each is taken from a lock that is sound (see Sound), so that what fails is what is broken.
// The letters H1 to H15 of the hazards, and the numbers of the articles, are explained in docs/testing.md.
package articles
