package worker

import "encoding/binary"

// Pack makes bytes of lists, one after the other: JSON has no words for hundreds of thousands of holds. T has a fixed size, as of package binary.
func Pack[T any](lists ...[]T) []byte {
	var b []byte
	for _, list := range lists {
		b, _ = binary.Append(b, binary.LittleEndian, list) // it knows the size of a T
	}
	return b
}

// Unpack is what Pack was given, as one list.
func Unpack[T any](b []byte) []T {
	var one T
	list := make([]T, len(b)/binary.Size(one))
	_, _ = binary.Decode(b, binary.LittleEndian, list)
	return list
}
