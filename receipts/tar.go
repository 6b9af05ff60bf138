package receipts

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// maxTarEntries bounds the folders and files of an archive together.
const maxTarEntries = 1024

// tarBuffer holds the whole archive of a small job.
const tarBuffer = 32 << 10

// tarOverhead bounds the headers and padding of an archive.
const tarOverhead = 4 << 20

// ReadTar reads a bundle from a tar archive made by [Bundle.WriteTar] or tar(1), with
// the files at the top or all in one folder. Errors wrap [ErrBundle].
func ReadTar(r io.Reader, limits Limits) (*Bundle, error) {
	l := newLoader(limits)

	// The whole archive is bounded too, because its headers could be endless.
	whole := bufio.NewReaderSize(io.LimitReader(r, l.limits.TotalBytes+tarOverhead), tarBuffer)
	in := tar.NewReader(whole)
	root := ""
	for entries := 0; ; entries++ {
		header, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			if err := onlyZeros(whole); err != nil {
				return nil, err
			}
			return l.done()
		case err != nil:
			return nil, fmt.Errorf("%w: read archive: %w", ErrBundle, err)
		case entries == maxTarEntries:
			return nil, fmt.Errorf("%w: more than %d entries", ErrBundle, maxTarEntries)
		}

		name := path.Clean(header.Name)
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if header.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("%w: %s is not a regular file", ErrBundle, quoted(name))
		}

		folder, file := splitTarName(name)
		if l.empty() {
			root = folder
		}
		if folder != root {
			return nil, fmt.Errorf("%w: %s is outside the bundle's folder", ErrBundle, quoted(name))
		}
		if err := l.add(file, stream{in, header.Size}); err != nil {
			return nil, err
		}
	}
}

// onlyZeros refuses data after the end, which another program might read as further
// files.
func onlyZeros(r *bufio.Reader) error {
	for {
		b, err := r.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%w: read archive: %w", ErrBundle, err)
		case b != 0:
			return fmt.Errorf("%w: data behind the end of the archive", ErrBundle)
		}
	}
}

// splitTarName splits "folder/artifacts/x" into "folder" and "artifacts/x".
func splitTarName(name string) (folder, file string) {
	folder, file = path.Split(name)
	folder = strings.TrimSuffix(folder, "/")
	if path.Base(folder) == ArtifactDir {
		file = ArtifactDir + "/" + file
		folder = path.Dir(folder)
	}
	if folder == "" {
		folder = "."
	}
	return folder, file
}

func (l *loader) empty() bool {
	for range l.bundle.Files() {
		return false
	}
	return true
}

// WriteTar writes the bundle as a tar archive. The same bundle always gives the same
// bytes, because the archive contains no times, owners or modes of the machine.
func (b *Bundle) WriteTar(w io.Writer) error {
	out := tar.NewWriter(w)
	for name, data := range b.Files() {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o644, Format: tar.FormatUSTAR,
		}
		if err := out.WriteHeader(header); err != nil {
			return fmt.Errorf("write bundle: %w", err)
		}
		if _, err := out.Write(data); err != nil {
			return fmt.Errorf("write bundle: %w", err)
		}
	}

	if err := out.Close(); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	return nil
}

// ParseTar is [ReadTar] for an archive in memory. The bundle shares the archive's
// memory, so the archive must not be changed afterwards.
func ParseTar(archive []byte, limits Limits) (*Bundle, error) {
	l := newLoader(limits)
	if l.addPlain(archive) {
		return l.done()
	}
	return ReadTar(bytes.NewReader(archive), limits)
}

// tarBlock is the block size of tar: headers and files fill whole blocks.
const tarBlock = 512

// Offsets in a header, which starts with the name and ends with zeros.
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

// addPlain adds the files of an archive whose headers are exactly those of WriteTar. It
// reports false for anything else; ReadTar then reads the archive and words the error.
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

// plainHeader reads the header at the start of an archive. It is ok only if WriteTar
// writes exactly this header for the name and size.
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
