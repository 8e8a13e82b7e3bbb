package driver

import "strings"

// ownerIDLength is the number of hexadecimal digits before the colon of an owner id.
const ownerIDLength = 32

// OwnerClient returns the part of an owner id that is the same for all claims of one client: host, process id, label
// and a random part, for people to read and for drivers to address messages by. Empty if owner is not of that form.
func OwnerClient(owner string) string {
	if len(owner) > ownerIDLength && owner[ownerIDLength] == ':' && !strings.ContainsAny(owner[:ownerIDLength], ":") {
		return owner[ownerIDLength+1:]
	}
	return ""
}
