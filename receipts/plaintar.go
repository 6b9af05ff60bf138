package receipts

import "bytes"

// ParseTar is ReadTar for an archive in memory. The files of the bundle are
// parts of it, so that it must not be changed.
func ParseTar(archive []byte, limits Limits) (*Bundle, error) {
	l := newLoader(limits)
	if l.addPlain(archive) {
		return l.done()
	}
	return ReadTar(bytes.NewReader(archive), limits)
}

// tarBlock is what headers and files of an archive are multiples of.
const tarBlock = 512

// Places in a header, which starts with the name. Behind the end are zeros.
const (
	tarMode     = 100
	tarSize     = 124
	tarTime     = 136
	tarChecksum = 148
	tarType     = 156
	tarMagic    = 257
	tarDevice   = 329
	tarEnd      = 345
)

// addPlain adds the files of an archive as WriteTar makes it, byte for byte in
// its headers. Whatever reads otherwise, or is not to be in a bundle, is left to
// ReadTar, which knows what to say of it.
func (l *loader) addPlain(archive []byte) bool {
	for len(archive) >= tarBlock && archive[0] != 0 {
		name, size, ok := plainHeader(archive)
		if archive = archive[tarBlock:]; !ok || size < 0 || size > len(archive) { // less than 0: of 33 bits, in 32
			return false
		}
		if l.add(name, memory(archive[:size:size])) != nil {
			return false
		}
		archive = archive[min(len(archive), (size+tarBlock-1)/tarBlock*tarBlock):]
	}
	return len(archive) >= 2*tarBlock && len(bytes.Trim(archive, "\x00")) == 0
}

// plainHeader reads the header at the start of an archive. It is what WriteTar
// writes for this name and this size, or it is not ok.
func plainHeader(archive []byte) (name string, size int, ok bool) {
	header := [tarBlock]byte(archive)
	end := bytes.IndexByte(header[:tarMode], 0)
	if end < 0 {
		return "", 0, false
	}
	for _, c := range header[tarSize : tarTime-1] {
		size = size<<3 | int(c&7) // what is no such digit is not written so
	}
	var want [tarBlock]byte
	copy(want[:], header[:end])
	copy(want[tarMode:], "0000644\x000000000\x000000000\x00")
	putOctal(want[tarSize:tarTime-1], size)
	copy(want[tarTime:], "00000000000\x00        0")
	copy(want[tarMagic:], "ustar\x0000")
	copy(want[tarDevice:], "0000000\x000000000\x00")
	sum := 0
	for _, c := range want[:tarEnd] {
		sum += int(c)
	}
	putOctal(want[tarChecksum:tarType-2], sum)
	want[tarType-2] = 0
	return string(header[:end]), size, header == want
}

// putOctal fills b with the digits of n.
func putOctal(b []byte, n int) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = '0' + byte(n&7)
		n >>= 3
	}
}
