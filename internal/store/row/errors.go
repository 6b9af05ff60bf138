package row

import "errors"

var (
	// ErrNotFound: there is no such thing in the store.
	ErrNotFound = errors.New("not found")
	// ErrDuplicate: a thing that may be recorded once was recorded before.
	ErrDuplicate = errors.New("already recorded")
	// ErrConflict: the step does not fit the present state. Nothing was written.
	ErrConflict = errors.New("step does not fit the present state")
	// ErrInvalid: what is to be recorded breaks a rule of its form.
	ErrInvalid = errors.New("not valid")
	// ErrTooLarge: bytes over a cap.
	ErrTooLarge = errors.New("too large")
	// ErrCorrupt: what is stored is not what was stored.
	ErrCorrupt = errors.New("stored bytes do not match their digest")
)
