// Package browser drives a headless Chromium, so that tests can see what a person sees. It serves tests alone.
//
// Chromium is spoken to in the DevTools protocol (https://chromedevtools.github.io/devtools-protocol/) through two pipes: no port is opened, and no
// client library is needed. It never outlives the process that started it.
package browser
