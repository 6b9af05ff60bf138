// Package lowerbech32 decodes BIP-173 text in its usual form: lower case, and the
// checksum of bech32, not bech32m. It takes a tenth of btcutil's time. It does not
// say why it refuses a text; use btcutil for that.
package lowerbech32

import "strings"

const (
	charset = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	// checksum is the number of groups of the checksum, at the end.
	checksum = 6
)

// none marks characters that are not allowed in the data.
const none = 255

// values maps characters to their values.
var values = func() (v [256]byte) {
	for c := range v {
		v[c] = none
	}
	for i := range charset {
		v[charset[i]] = byte(i)
	}
	return v
}()

// Decode returns the prefix and the data in groups of five bits, without the
// checksum. Text may be of any length.
func Decode(text string) (prefix string, groups []byte, ok bool) {
	one := strings.LastIndexByte(text, '1')
	if one < 1 || len(text)-one-1 < checksum {
		return "", nil, false
	}

	prefix, data := text[:one], text[one+1:]
	sum := uint32(1)
	for _, c := range []byte(prefix) {
		if c < '!' || c > '~' || 'A' <= c && c <= 'Z' {
			return "", nil, false
		}
		sum = next(sum, c>>5)
	}

	sum = next(sum, 0)
	for _, c := range []byte(prefix) {
		sum = next(sum, c&31)
	}

	groups = make([]byte, len(data))
	for i := range groups {
		if groups[i] = values[data[i]]; groups[i] == none {
			return "", nil, false
		}
		sum = next(sum, groups[i])
	}

	return prefix, groups[:len(groups)-checksum], sum == 1
}

// next adds one group to the checksum, a remainder of polynomials over the field of
// 32 elements.
func next(sum uint32, group byte) uint32 {
	top := sum >> 25
	sum = sum&(1<<25-1)<<5 ^ uint32(group)
	sum ^= 0x3b6a57b2 & -(top & 1)
	sum ^= 0x26508e6d & -(top >> 1 & 1)
	sum ^= 0x1ea119fa & -(top >> 2 & 1)
	sum ^= 0x3d4233dd & -(top >> 3 & 1)
	sum ^= 0x2a1462b3 & -(top >> 4 & 1)
	return sum
}
