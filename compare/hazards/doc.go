// Package hazards plays what can go wrong with a distributed lock, on real servers, and tells what was seen: fifteen hazards that articles
// teach, on every backend, and on the lock of the article itself.
package hazards
