// Package house holds the rules of how this project is built that no compiler knows: who may import whom, who may exit or
// read the environment, what belongs to every backend. It has tests only; they read the source of the whole module, for
// every system, and name the rule that a file breaks. Nested modules are not looked at.
package house
