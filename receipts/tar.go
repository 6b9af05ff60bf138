package receipts

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// maxTarEntries bounds folders and files of an archive together.
const maxTarEntries = 1024

// tarBuffer holds the whole archive of a small job.
const tarBuffer = 32 << 10

// tarOverhead is what headers and padding may add to the files.
const tarOverhead = 4 << 20

// ReadTar reads a bundle from a tar archive, as WriteTar or tar(1) makes it:
// the files at the top, or all in one folder. Errors wrap ErrBundle.
func ReadTar(r io.Reader, limits Limits) (*Bundle, error) {
	l := newLoader(limits)

	// The archive as a whole is bounded too, so that its headers cannot grow
	// without end.
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

// onlyZeros refuses what another program could take for more of the archive.
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

// WriteTar writes the bundle as a tar archive. The same bundle gives the same
// bytes: no times, owners or modes of the machine are in it.
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
