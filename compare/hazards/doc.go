// Package hazards plays what can go wrong with a distributed lock on real servers, and reports what was seen: fifteen hazards from articles, on every
// backend and on the lock of the article.
package hazards
