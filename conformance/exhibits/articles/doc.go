// Package articles is a collection of broken locks that articles teach, as drivers on a real Redis. Each is a sound
// lock with one step replaced, so what fails is the fault that its article shows or overlooks. The named cases of package
// conformance must catch each. Do not use them for anything else.
//
// docs/testing.md explains the hazards H1 to H15 and the numbers of the articles.
package articles
