package redisscript

import (
	"strconv"
	"sync"
)

// slots is the number of slots of a Redis Cluster.
const slots = 16384

// LastToken is the key of the last token drawn on the server of the lock with key. A single server has one such key; a Cluster has one per
// slot, whose hash tag is the least number that hashes to it. No lock or side key equals it.
func LastToken(key string, cluster bool) string {
	if !cluster {
		return Side("", "last-token")
	}
	return Side(strconv.Itoa(int(slotTags()[slot(key)])), "last-token")
}

// slotTags has for each slot the least number whose digits hash to it.
var slotTags = sync.OnceValue(func() *[slots]int32 {
	var tags [slots]int32
	found := make(map[int]bool, slots)
	for n := int32(0); len(found) < slots; n++ {
		if s := slot(strconv.Itoa(int(n))); !found[s] {
			found[s], tags[s] = true, n
		}
	}
	return &tags
})

// slot is the hash slot of a key without braces: CRC16 (XMODEM), per the Redis Cluster specification.
func slot(key string) int {
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc % slots)
}
