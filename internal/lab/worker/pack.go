package worker

import "encoding/binary"

// Pack encodes lists of a fixed-size T as bytes, one after the other: JSON is too large for hundreds of thousands of holds.
func Pack[T any](lists ...[]T) []byte {
	var b []byte
	for _, list := range lists {
		b, _ = binary.Append(b, binary.LittleEndian, list) // cannot fail for a fixed-size T
	}
	return b
}

// Unpack decodes the result of Pack as one list.
func Unpack[T any](b []byte) []T {
	var one T
	list := make([]T, len(b)/binary.Size(one))
	_, _ = binary.Decode(b, binary.LittleEndian, list)
	return list
}
